"""The kit `specum`: spec-driven workflow, from research to execution."""
