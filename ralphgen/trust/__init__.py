"""What a clone makes a person run: shown, asked for once, and recorded outside it."""
