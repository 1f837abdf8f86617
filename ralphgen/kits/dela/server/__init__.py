"""Implementation of the tools for the project's own tasks."""
