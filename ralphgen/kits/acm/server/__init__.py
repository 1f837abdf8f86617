"""What the tools on process knowledge do: they read documents, and change nothing."""
