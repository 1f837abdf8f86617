"""Every decision about what is emitted, in pure functions of the facts."""
