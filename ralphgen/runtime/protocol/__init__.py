"""The Model Context Protocol: the fast path without the SDK, and the SDK's own server."""
