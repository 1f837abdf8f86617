"""Tests that each greeting is a sentence with a name."""

import unittest

import greetings


class Greetings(unittest.TestCase):
    """Every function of the module is a greeting."""

    def test_each_greeting_has_the_name(self) -> None:
        """Each greeting starts with a capital and ends with a full stop."""
        for name, function in vars(greetings).items():
            if not name.startswith("_"):
                self.assertRegex(function("Ada"), r"^[A-Z].*Ada.*\.$")
