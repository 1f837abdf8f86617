"""Text files of the project that a server reads and writes."""
