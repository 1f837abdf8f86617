"""Tests of the kit rye."""
