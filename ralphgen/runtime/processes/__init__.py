"""The processes that a server runs for its client: started, watched and ended."""
