"""Starts an agent in a session, watches it, checks that it has its tools, says what it came to."""
