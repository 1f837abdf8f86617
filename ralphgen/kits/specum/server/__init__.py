"""What the tools of the specum kit do: specs, their phases and their tasks."""
