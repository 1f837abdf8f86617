"""Makes, describes, lists and prunes agent sessions; starts no client."""
