"""Tests of the rye kit."""
