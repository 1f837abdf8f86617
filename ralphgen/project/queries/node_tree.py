"""Reads the database's account of a statement: which columns and functions it uses.

The server writes it for the body of a function in SQL and for each view; it cannot be argued with,
since it is what would be run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTIONS = re.compile(r":(?:funcid|aggfnoid|winfnoid) ([0-9]+)")
_OPERATORS = re.compile(r":opno ([0-9]+)")
_ACCESS = re.compile(
    r":relid ([0-9]+) (?:(?!:relid ).)*?:requiredPerms ([0-9]+) (?:(?!:relid ).)*?"
    r":selectedCols \(b([ 0-9]*)\) :insertedCols \(b([ 0-9]*)\) :updatedCols \(b([ 0-9]*)\)",
    re.DOTALL,
)
_RELATIONS = re.compile(r":rtekind 0 :relid ([0-9]+) ")
_LOWEST = 7  # what a column's number is raised by, so that those of the system count too
SELECT, INSERT, UPDATE, DELETE = 2, 1, 4, 8


@dataclass(frozen=True, slots=True)
class Access:
    """What a statement does with a relation: its rights, and the numbers of columns it touches.

    The number 0 stands for the whole row.
    """

    relation: int
    rights: int
    read: frozenset[int]
    written: frozenset[int]


def accesses(tree: str) -> Iterator[Access]:
    """Yield what a statement does with each relation in it, those of its parts included."""
    for relation, rights, *columns in _ACCESS.findall(tree):
        read, inserted, updated = (
            frozenset(int(one) - _LOWEST for one in listed.split()) for listed in columns
        )
        yield Access(int(relation), int(rights), read, inserted | updated)


def relations(tree: str) -> frozenset[int]:
    """Return every relation that a statement names."""
    return frozenset(map(int, _RELATIONS.findall(tree)))


def functions(tree: str) -> frozenset[int]:
    """Return the functions that a statement calls by name."""
    return frozenset(map(int, _FUNCTIONS.findall(tree)))


def operators(tree: str) -> frozenset[int]:
    """Return the operators in a statement, each of which stands for a function."""
    return frozenset(map(int, _OPERATORS.findall(tree)))
