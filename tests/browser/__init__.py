"""Tests of the board in a browser."""
