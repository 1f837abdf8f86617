"""The files that a server reads and writes: safely, whole or not at all, and what is in them."""
