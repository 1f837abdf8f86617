"""The ralph kit: the project's own database as tools (SPEC-070)."""
