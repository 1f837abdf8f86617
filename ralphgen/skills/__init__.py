"""Agent Skills: what agents read of each server that is on, rendered from the plan's own data."""
