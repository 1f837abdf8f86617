"""Tests of the kit specum."""
