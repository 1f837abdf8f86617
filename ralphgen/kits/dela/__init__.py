"""The kit `dela`: agents run the project's own tasks, those that a person has allowed."""
