"""Starts agents in sessions, and calls the tools of servers as a client does."""
