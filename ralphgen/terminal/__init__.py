"""Common parts of all commands: results and messages on a terminal, and common options."""
