"""The board: a local page on who may do what and how the project stands."""
