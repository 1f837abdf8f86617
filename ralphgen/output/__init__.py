"""The generated folder: the only code that writes it, finishes a broken write or compares it."""
