"""Implementation of the tools for process knowledge, which only read documents."""
