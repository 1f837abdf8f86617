"""The project's SQLite database: connection, transactions, and the schema in it."""
