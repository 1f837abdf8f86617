"""What the tools of the ralph kit do: tasks, comments, features, disciplines, state files."""
