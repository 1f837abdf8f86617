"""The kit `dela`: agents run the project's own tasks, as far as the user has allowed them."""
