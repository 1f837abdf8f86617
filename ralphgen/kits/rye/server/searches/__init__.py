"""How items are found by their words: queries, and the index that answers them."""
