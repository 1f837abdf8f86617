"""The rules on tasks, as functions on a database: no session, and no protocol."""
