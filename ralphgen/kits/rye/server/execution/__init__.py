"""How items are carried out: chains, parameters, what is filled in, and what came of it."""
