"""Examines a project from its database to a real handshake with its server."""
