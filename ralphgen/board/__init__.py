"""The board: a local page with the project's state, and with the tools of each recipe."""
