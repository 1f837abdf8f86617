"""Tests of the dela kit."""
