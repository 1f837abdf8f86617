"""Runs the SQL of a project in a child process, which ends if a statement exceeds its limit."""
