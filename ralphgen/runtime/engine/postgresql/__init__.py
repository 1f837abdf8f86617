"""The project's database in PostgreSQL: by the same names as for SQLite."""
