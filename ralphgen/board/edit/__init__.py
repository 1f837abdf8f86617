"""What the board changes: a discipline's servers and disabled tools, saved whole or not at all."""
