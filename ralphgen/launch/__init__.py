"""Starts Claude Code in a session, checks that it has its tools, and shows what it does."""
