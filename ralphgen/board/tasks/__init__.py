"""Tasks on the board: the list of them, each one's page, and what a person changes of them."""
