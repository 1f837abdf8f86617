"""Works through the ready tasks: claims the next, launches an agent, and handles the result."""
