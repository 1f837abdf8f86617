"""Works on one task after the other: claims the next, launches an agent, looks what came of it."""
