"""Implementation of the specum tools: specs, their phases and their tasks."""
