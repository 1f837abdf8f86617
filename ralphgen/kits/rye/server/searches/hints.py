"""Says what a search may have meant otherwise, where it found nothing or names no field."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.values.nearest import nearest

from .filters import CREATED, DATE_FROM, DATE_TO, SHOWN
from .fuzzy import allowed_distance
from .matching import MOST_MISTYPED, may_be_mistyped
from .queries import leaves_of
from .terms import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .queries import Node
    from .search_table import Shelf

MOST = 3  # names that one search is told of

_PHRASE = re.compile(r'"[^"]*"?')
# A word that is put before another one as the name of a field is, but no address and no "a::b".
_NAMED = re.compile(r"(?<![^\s(])([A-Za-z]\w*):(?=[^\s:/])")


def field_hints(query: str) -> list[str]:
    """For the names in a query that stand where a field's would, and are none."""
    named = dict.fromkeys(_NAMED.findall(_PHRASE.sub('"', query)))
    known = ", ".join(FIELDS)
    return [
        f'"{one_line(name[:SHOWN])}:" names no field: these are {known}{_meant(name, FIELDS)}'
        for name in [name for name in named if name not in FIELDS][:MOST]
    ]


def filter_hints(
    filters: Mapping[str, Any], shelves: Iterable[Shelf], own: Sequence[str]
) -> list[str]:
    """For the filters that ask for what no searched item says; `own` is what every item says."""
    asked = {CREATED if name in (DATE_FROM, DATE_TO) else name: name for name in filters}
    if not asked.keys() - {*own}:
        return []
    known = {*own}.union(*(shelf.names() for shelf in shelves))
    return [
        f'"filters.{one_line(name[:SHOWN])}" asks for what no searched item has'
        f"{_meant(asks, known)}"
        for asks, name in [pair for pair in asked.items() if pair[0] not in known][:MOST]
    ]


def fuzzy_hints(query: Node | None) -> list[str]:
    """For a query of words that may have typing errors."""
    words = [leaf.words[0] for leaf in leaves_of(query) if may_be_mistyped(leaf)]
    if len(words) > MOST_MISTYPED or not any(allowed_distance(word, 1) for word in words):
        return []
    return ['"fuzzy": {} also finds words with typing errors']


def _meant(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f'; did you mean "{near}"?' if near else ""
