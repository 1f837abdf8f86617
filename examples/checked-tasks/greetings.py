"""The greetings of the program."""
