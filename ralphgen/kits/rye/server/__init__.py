"""The server of the kit rye: finds, reads, executes and signs items."""
