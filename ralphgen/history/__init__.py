"""What sessions have changed, entry by entry, and taking back what one of them has."""
