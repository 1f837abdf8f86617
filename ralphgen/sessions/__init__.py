"""Agent sessions: what one may see, the files that say so, and what is left of old ones."""
