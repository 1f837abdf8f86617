"""Writes and checks `.ralph/mcp/`: init, regeneration, comparison, and trust in a project."""
