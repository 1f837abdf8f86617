"""What is kept in a database of whichever engine: claims, the ledger, what a schema is."""
