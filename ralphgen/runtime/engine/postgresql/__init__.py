"""The project's database on a server: connection, transactions, and the schema in it."""
