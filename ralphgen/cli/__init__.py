"""The command line: arguments in, words and exit codes out; the work is done elsewhere."""
