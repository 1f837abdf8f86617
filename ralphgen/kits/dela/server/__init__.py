"""What the tools on the project's own tasks do."""
