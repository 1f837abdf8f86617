"""What the server of the kit rye does: items found, read, carried out and signed."""
