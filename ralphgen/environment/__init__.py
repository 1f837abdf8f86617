"""The Python environment in which emitted servers run: found, or built from the lock."""
