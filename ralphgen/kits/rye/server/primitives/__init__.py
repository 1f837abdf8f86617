"""What tools end in: a command that runs, or a request over HTTP."""
