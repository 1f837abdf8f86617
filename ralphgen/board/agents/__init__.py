"""Agents at work on the board: sessions as they go on, and loops; starting, stopping, undoing."""
