"""The only code that opens the database or reads a project's files."""
