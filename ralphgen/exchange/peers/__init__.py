"""Reads the tasks of other tools from their files."""
