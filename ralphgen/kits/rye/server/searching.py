"""The tool that searches: items that match a query, the best first, a page at a time."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.paging import fitted, leading

from .item import KNOWLEDGE, SOURCES, TYPES
from .searches.facts import shown_metadata
from .searches.filters import CREATED, check_filters, moment_of, passes
from .searches.previews import preview
from .searches.queries import leaves_of, parse_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from .item import Item
    from .searches.queries import Node
    from .searches.search_table import Shelf
    from .searches.terms import Leaf
    from .spaces import Spaces
    from .workspace import Rye

ALL = "all"
LIMIT = 10  # results of a page, where the caller does not say
DISTANCE = 2  # letters of a word that may be wrong, where the caller does not say
DIGITS = 4  # of a score behind the point
LONG = 2.0  # seconds of showing results, after which it counts as something that takes its time
NEWEST, NAME = "date", "name"
EMPTY: tuple[Any, ...] = ("", None, [], {})  # what a result leaves out; no score is one
# What filters may ask of every item.
OWN = ("id", "type", "name", "title", "description", "category", "source", "tags")


class Hit:
    """An item that matches."""

    __slots__ = ("row", "score", "shelf")

    def __init__(self, shelf: Shelf, row: int, score: float) -> None:
        self.shelf = shelf
        self.row = row
        self.score = round(score, DIGITS)


def search(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """A page of the items that match, and how many there are; raises `CodedError`."""
    query = parse_query(arguments["query"])
    check_filters(arguments.get("filters") or {})
    spaces = rye.spaces(arguments["project_path"])
    item_type, source = arguments["item_type"], arguments.get("source") or ALL
    places = [
        (each_type, spaces.of(name))
        for name in (SOURCES if source == ALL else (source,))
        for each_type in (TYPES if item_type == ALL else (item_type,))
    ]

    def work(shelves: list[Shelf]) -> dict[str, Any]:
        return _Search(rye, spaces, query, arguments).page(shelves)

    answer: dict[str, Any] = rye.index().look(places, work, rye.begin)
    sources = dict.fromkeys(space.name for _, space in places)
    if warnings := spaces.warnings(dict.fromkeys(kind for kind, _ in places), [*sources]):
        answer["warnings"] = warnings
    return fitted(answer)


class _Search:
    """One search, its options completed."""

    __slots__ = ("_arguments", "_distance", "_filters", "_query", "_rye", "_spaces")

    def __init__(
        self, rye: Rye, spaces: Spaces, query: Node | None, arguments: Mapping[str, Any]
    ) -> None:
        self._rye = rye
        self._spaces = spaces
        self._query = query
        self._arguments = arguments
        self._filters = arguments.get("filters") or {}
        fuzzy = {"enabled": False} if arguments.get("fuzzy") is None else arguments["fuzzy"]
        self._distance = fuzzy.get("max_distance", DISTANCE) if fuzzy.get("enabled", True) else 0

    def page(self, shelves: list[Shelf]) -> dict[str, Any]:
        """The answer."""
        hits = self._sorted(self._hits(shelves))
        offset = self._arguments.get("offset") or 0
        limit = self._arguments.get("limit") or LIMIT
        results = leading(self._entries(hits[offset : offset + limit]))
        following = offset + len(results)
        further: dict[str, Any] = {"next_offset": following} if following < len(hits) else {}
        if told := self._hint(shelves, len(hits)):
            further["hint"] = told
        return {
            "status": "success",
            "results": results,
            "total": len(hits),
            **further,
            "query": self._arguments["query"],
            "search_type": "fuzzy" if self._distance else "keyword",
            "item_type": self._arguments["item_type"],
            "source": self._arguments.get("source") or ALL,
            "limit": limit,
            "offset": offset,
        }

    def _hits(self, shelves: list[Shelf]) -> list[Hit]:
        """What matches and passes the filters, shelf by shelf, by the ids."""
        from .searches.matching import Matching

        scores = Matching(shelves, self._distance).scores(self._query)
        hits = []
        for shelf, found in zip(shelves, scores, strict=True):
            rows = sorted(found, key=shelf.ids.__getitem__)
            hits += [Hit(shelf, row, found[row]) for row in rows]
        return (
            [hit for hit in hits if passes(self._filters, _values(hit))] if self._filters else hits
        )

    def _sorted(self, hits: list[Hit]) -> list[Hit]:
        """The hits in the order asked for; those of one rank stay in theirs."""
        by = self._arguments.get("sort_by")
        if by == NAME:
            return sorted(hits, key=lambda hit: hit.shelf.item(hit.row).name)
        if by == NEWEST:
            dated = [(moment_of(_values(hit)(CREATED)), hit) for hit in hits]
            known = [(moment.timestamp(), hit) for moment, hit in dated if moment]
            known.sort(key=lambda pair: -pair[0])
            return [hit for _, hit in known] + [hit for moment, hit in dated if not moment]
        return sorted(hits, key=lambda hit: -hit.score)

    def _hint(self, shelves: Sequence[Shelf], total: int) -> str:
        """What may have been meant otherwise; empty where nothing points to that."""
        from .searches.hints import field_hints, filter_hints, fuzzy_hints

        hints = field_hints(self._arguments["query"])
        if not total:
            hints += filter_hints(self._filters, shelves, OWN)
            if not hints and not self._distance and self._rye.takes("search", "fuzzy"):
                hints += fuzzy_hints(self._query)
        return "; ".join(hints)

    def _entries(self, hits: Sequence[Hit]) -> Iterator[dict[str, Any]]:
        """What an answer says of hits, one after the other; raises `LaterError` in a hurry."""
        leaves = leaves_of(self._query)
        end = time.monotonic() + LONG
        for hit in hits:
            if time.monotonic() > end:
                self._rye.begin()
            entry = self._entry(hit, leaves)
            yield {name: value for name, value in entry.items() if value not in EMPTY}

    def _entry(self, hit: Hit, leaves: Sequence[Leaf]) -> dict[str, Any]:
        """What an answer says of a hit."""
        item, facts = hit.shelf.item(hit.row), hit.shelf.facts(hit.row)
        return {
            "id": item.id,
            "type": item.type,
            "name": item.name,
            "title": facts["title"],
            "description": facts["description"],
            "category": item.category,
            "source": item.source,
            "path": item.path,
            "score": hit.score,
            **self._text_of(item, facts, leaves),
            "metadata": shown_metadata(facts),
            "problems": facts["problems"],
            "shadows": self._spaces.shadows(item),
            "shadowed_by": self._spaces.shadowed_by(item),
        }

    def _text_of(
        self, item: Item, facts: Mapping[str, Any], leaves: Sequence[Leaf]
    ) -> dict[str, Any]:
        """What its text is shown by; nothing where it is gone since it was looked at."""
        from .authenticity.signatures import split
        from .files import read_item

        try:
            text = read_item(item)
        except CodedError:
            return {}
        _, bare = split(text, item.extension)
        start, opening = facts["start"], facts["opening"]
        if item.type == KNOWLEDGE:  # what goes before is said by the result itself
            bare, start, opening = bare[start:], 0, 0
        state = self._rye.trust().verdict(item, text).state
        return {"preview": preview(bare, start, opening, leaves), "signature": state}


def _values(hit: Hit) -> Callable[[str], Any]:
    """What an item says of itself, by the names that filters have for it."""
    item, facts = hit.shelf.item(hit.row), hit.shelf.facts(hit.row)
    own = {
        "id": item.id,
        "type": item.type,
        "name": item.name,
        "title": facts["title"],
        "description": facts["description"],
        "category": item.category,
        "source": item.source,
        "tags": facts["tags"],
    }

    def value(name: str) -> Any:
        return own[name] if name in own else facts["metadata"].get(name)

    return value
