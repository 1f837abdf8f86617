"""What Claude Code takes from files: a plugin of the project, a subagent for each discipline."""
