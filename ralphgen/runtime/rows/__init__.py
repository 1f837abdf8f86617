"""Tools on the rows of any table or view, of whichever engine."""
