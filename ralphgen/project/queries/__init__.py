"""The project's named queries: `.ralph/queries/*.sql`, read, and prepared against the schema."""
