"""Whatever the program says names the person, and ends with a full stop."""

import unittest

import greetings


class Greetings(unittest.TestCase):
    """Every function of the module is a greeting."""

    def test_each_names_the_person(self) -> None:
        """Each greeting is a sentence with the name in it."""
        for name, function in vars(greetings).items():
            if not name.startswith("_"):
                self.assertRegex(function("Ada"), r"^[A-Z].*Ada.*\.$")
