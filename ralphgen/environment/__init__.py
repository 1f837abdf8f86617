"""The interpreter of emitted servers, and the environment of a server with a lock."""
