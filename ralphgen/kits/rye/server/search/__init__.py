"""Finds items by their words: queries, filters and a full-text index of their files."""
