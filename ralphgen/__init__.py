"""Writes a project's own MCP servers from its database schema, disciplines and recipes."""

__version__ = "0.2.0"
