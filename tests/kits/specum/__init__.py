"""Tests of the specum kit."""
