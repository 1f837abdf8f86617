"""Claude Code as an agent: its command line, its events, and the check that it has its tools."""
