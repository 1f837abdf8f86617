"""Runtime of every emitted server: modules copied unchanged into each project."""
