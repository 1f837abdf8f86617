"""What a session may reach: its context file, its rows, its lock."""
