"""The server of a project that has no tasks: what its tools share."""
