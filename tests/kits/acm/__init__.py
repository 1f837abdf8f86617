"""Tests of the kit acm."""
