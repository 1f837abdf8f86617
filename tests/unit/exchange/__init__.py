"""Tests of what goes out of a project and comes in."""
