"""Serves the emitted kits over streamable HTTP: only projects with `[http]` have this room."""
