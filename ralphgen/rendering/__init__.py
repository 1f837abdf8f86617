"""Spells a plan as files: templates for what varies, runtime modules as they are."""
