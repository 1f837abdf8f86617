"""Renders a plan as files: templates for the variable parts, runtime modules copied unchanged."""
