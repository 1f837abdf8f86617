"""What all commands share: results and messages on a terminal, and common options."""
