"""Finds the known name that a misspelled one most likely meant."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# A word is compared in time that grows with its square, and nobody misspells a name this long.
LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the entry of `known` nearest to `name`, or None where none is near.

    Case, hyphens, underscores and spaces do not count: "featureName" is "feature_name". The
    answer does not depend on the order of `known`.
    """
    from difflib import get_close_matches

    if len(name) > LONGEST_NAME:
        return None
    entries = {_letters(entry): entry for entry in sorted(known, reverse=True)}
    matches = get_close_matches(_letters(name), entries, n=1)
    return entries[matches[0]] if matches else None


def _letters(name: str) -> str:
    """Return `name` without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")
