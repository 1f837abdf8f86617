"""Tests of the acm kit."""
