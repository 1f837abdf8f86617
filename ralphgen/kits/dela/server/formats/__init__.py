"""One module for each format in which projects define tasks."""
