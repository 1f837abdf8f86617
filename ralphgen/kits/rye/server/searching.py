"""Searches items by a query, best match first, one page at a time."""

from __future__ import annotations

import re
import time

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.errors import CodedError, one_line
from ralphgen.runtime.values import fitted, leading, nearest

from .queries import (
    FIELDS,
    MOST_MISTYPED,
    allowed_distance,
    fold,
    leaves_of,
    may_be_mistyped,
    parse_query,
    pattern_of,
)
from .search_index import (
    CREATED,
    DATE_FROM,
    DATE_TO,
    SHOWN,
    check_filters,
    moment_of,
    passes,
    result_metadata,
)
from .spaces import KNOWLEDGE, SOURCES, TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .queries import Leaf, Node
    from .search_index import ItemTable
    from .spaces import Item, Spaces
    from .workspace import Rye

ALL = "all"
LIMIT = 10  # default results of a page
DISTANCE = 2  # default number of wrong letters in a word
DIGITS = 4  # decimals of a score
LONG = 2.0  # seconds of building results after which the call is deferred
NEWEST, NAME = "date", "name"
EMPTY: tuple[Any, ...] = ("", None, [], {})  # values that a result omits; a score is never one
# Fields that every item has for filters.
OWN = ("id", "type", "name", "title", "description", "category", "source", "tags")
MOST_HINTS = 3  # hints of each kind in one answer
_PHRASE = re.compile(r'"[^"]*"?')
# A word before a colon, like a field name, but not a URL or "a::b".
_NAMED = re.compile(r"(?<![^\s(])([A-Za-z]\w*):(?=[^\s:/])")
LONGEST_PREVIEW = 200  # characters of a preview
BEFORE = 60  # characters before the match, at most
REACH = 1 << 16  # characters of the text searched
MOST_LEAVES = 8  # leaves searched in a text


class Hit:
    """An item that matches."""

    __slots__ = ("_row", "_table", "item", "score")

    def __init__(self, table: ItemTable, row: int, score: float) -> None:
        self._table = table
        self._row = row
        self.item = table.items[row]
        self.score = round(score, DIGITS)

    def facts(self) -> dict[str, Any]:
        """Return the stored facts of the item."""
        return self._table.facts(self._row)

    def own(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the common fields of a result; `facts` belong to this item."""
        item = self.item
        return {
            "id": item.id,
            "type": item.type,
            "name": item.name,
            "title": facts["title"],
            "description": facts["description"],
            "category": item.category,
            "source": item.source,
        }


def search(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of matching items and their total; raises `CodedError`."""
    query = parse_query(arguments["query"])
    check_filters(arguments.get("filters") or {})
    spaces = rye.spaces(arguments["project_path"])
    this = _Search(rye, spaces, query, arguments)
    every = [spaces.of(name) for name in SOURCES]
    answer: dict[str, Any] = rye.index().search(every, this.page, take_time)
    if warnings := spaces.warnings(this.types, this.sources):
        answer["warnings"] = warnings
    return fitted(answer)


class _Search:
    """One search, with defaults for omitted options."""

    __slots__ = (
        "_arguments",
        "_distance",
        "_filters",
        "_query",
        "_rye",
        "_spaces",
        "sources",
        "types",
    )

    def __init__(
        self, rye: Rye, spaces: Spaces, query: Node | None, arguments: Mapping[str, Any]
    ) -> None:
        self._rye = rye
        self._spaces = spaces
        self._query = query
        self._arguments = arguments
        item_type, source = arguments["item_type"], arguments.get("source") or ALL
        self.sources = SOURCES if source == ALL else (source,)
        self.types = TYPES if item_type == ALL else (item_type,)
        self._filters = arguments.get("filters") or {}
        fuzzy = {"enabled": False} if arguments.get("fuzzy") is None else arguments["fuzzy"]
        self._distance = fuzzy.get("max_distance", DISTANCE) if fuzzy.get("enabled", True) else 0

    def page(self, table: ItemTable) -> dict[str, Any]:
        """Return the answer."""
        from .queries import Matching

        # The searched rows, sorted by space, type and id.
        places = [(source, item_type) for source in self.sources for item_type in self.types]
        order = {place: number for number, place in enumerate(places)}
        rows = [
            (order[item.source, item.type], item.id, row)
            for row, item in table.items.items()
            if (item.source, item.type) in order
        ]
        searched = [row for *_, row in sorted(rows)]
        scores = Matching(table, self._distance).scores(self._query)
        hits = [Hit(table, row, scores[row]) for row in searched if row in scores]
        if self._filters:
            hits = [hit for hit in hits if passes(self._filters, _values(hit))]
        hits = self._sorted(hits)
        offset = self._arguments.get("offset") or 0
        limit = self._arguments.get("limit") or LIMIT
        results = leading(self._entries(hits[offset : offset + limit]))
        following = offset + len(results)
        further: dict[str, Any] = {"next_offset": following} if following < len(hits) else {}
        if hint := self._hint(table, searched, len(hits)):
            further["hint"] = hint
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

    def _sorted(self, hits: list[Hit]) -> list[Hit]:
        """Return the hits in the requested order; the sort is stable."""
        by = self._arguments.get("sort_by")
        if by == NAME:
            return sorted(hits, key=lambda hit: hit.item.name)
        if by == NEWEST:
            dated = [(moment_of(_values(hit)(CREATED)), hit) for hit in hits]
            known = [(moment.timestamp(), hit) for moment, hit in dated if moment]
            known.sort(key=lambda pair: -pair[0])
            return [hit for _, hit in known] + [hit for moment, hit in dated if not moment]
        return sorted(hits, key=lambda hit: -hit.score)

    def _hint(self, table: ItemTable, searched: Iterable[int], total: int) -> str:
        """Return suggestions for a query that may be a mistake, or an empty string."""
        hints = field_hints(self._arguments["query"])
        if not total:
            hints += filter_hints(self._filters, (table.facts(row) for row in searched))
            if not hints and not self._distance and self._rye.takes("search", "fuzzy"):
                hints += fuzzy_hints(self._query)
        return "; ".join(hints)

    def _entries(self, hits: Sequence[Hit]) -> Iterator[dict[str, Any]]:
        """Yield the results of an answer; raises `DeferError` if they take long."""
        leaves = leaves_of(self._query)
        end = time.monotonic() + LONG
        for hit in hits:
            if time.monotonic() > end:
                take_time()
            entry = self._entry(hit, leaves)
            yield {name: value for name, value in entry.items() if value not in EMPTY}

    def _entry(self, hit: Hit, leaves: Sequence[Leaf]) -> dict[str, Any]:
        """Return one result of an answer."""
        item, facts = hit.item, hit.facts()
        return {
            **hit.own(facts),
            "path": item.path,
            "score": hit.score,
            **self._text_of(item, facts, leaves),
            "metadata": result_metadata(facts),
            "problems": facts["problems"],
            "shadows": self._spaces.shadows(item),
            "shadowed_by": self._spaces.shadowed_by(item),
        }

    def _text_of(
        self, item: Item, facts: Mapping[str, Any], leaves: Sequence[Leaf]
    ) -> dict[str, Any]:
        """Return the preview and signature state, or nothing if the file is gone."""
        from .spaces import read_item
        from .trust import split

        try:
            text = read_item(item)
        except CodedError:
            return {}
        _, bare = split(text, item.extension)
        start, opening = facts["start"], facts["opening"]
        if item.type == KNOWLEDGE:  # the result already contains the metadata
            bare, start, opening = bare[start:], 0, 0
        state = self._rye.trust().verdict(item, text).state
        return {"preview": preview(bare, start, opening, leaves), "signature": state}


def _values(hit: Hit) -> Callable[[str], Any]:
    """Return a lookup of the values of an item by filter name."""
    facts = hit.facts()
    said = {**facts["metadata"], **hit.own(facts), "tags": facts["tags"]}
    return said.get


def field_hints(query: str) -> list[str]:
    """Return a hint for each unknown field name in a query."""
    named = dict.fromkeys(_NAMED.findall(_PHRASE.sub('"', query)))
    known = ", ".join(FIELDS)
    return [
        f'"{one_line(name[:SHOWN])}:" is not a field: use {known}{_suggestion(name, FIELDS)}'
        for name in [name for name in named if name not in FIELDS][:MOST_HINTS]
    ]


def filter_hints(filters: Mapping[str, Any], facts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a hint for each filter on a field that no searched item has."""
    asked = {CREATED if name in (DATE_FROM, DATE_TO) else name: name for name in filters}
    if not asked.keys() - {*OWN}:
        return []
    known = {*OWN}.union(*(fact["metadata"] for fact in facts))
    return [
        f'"filters.{one_line(name[:SHOWN])}" matches no field of the searched '
        f"items{_suggestion(asks, known)}"
        for asks, name in [pair for pair in asked.items() if pair[0] not in known][:MOST_HINTS]
    ]


def fuzzy_hints(query: Node | None) -> list[str]:
    """Return a hint about fuzzy search if the query contains words it could correct."""
    words = [leaf.words[0] for leaf in leaves_of(query) if may_be_mistyped(leaf)]
    if len(words) > MOST_MISTYPED or not any(allowed_distance(word, 1) for word in words):
        return []
    return ['"fuzzy": {} also finds misspelled words']


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f'; did you mean "{near}"?' if near else ""


def preview(text: str, start: int, opening: int, leaves: Sequence[Leaf]) -> str:
    """Return a few words around the first match of any leaf: in the body, else before it.

    The body begins at `start`. Without a match within `REACH`, the preview begins at `opening`.
    """
    at = _first_place(text, start, leaves) if leaves else None
    first = opening if at is None else max(at - BEFORE, start if at >= start else 0)
    if first:  # start at a word boundary
        blank = re.compile(r"\s").search(text, first - 1, max(at or 0, first))
        first = blank.end() if blank else first
    shown = _on_one_line(text[first : first + 4 * LONGEST_PREVIEW])
    begins = "…" if _on_one_line(text[max(first - LONGEST_PREVIEW, 0) : first]) else ""
    if len(begins + shown) > LONGEST_PREVIEW or first + 4 * LONGEST_PREVIEW < len(text):
        shown = shown[: LONGEST_PREVIEW - len(begins) - 1].rstrip() + "…"
    return begins + shown


def _first_place(text: str, start: int, leaves: Sequence[Leaf]) -> int | None:
    for begin, end in ((start, len(text)), (0, start)):
        part = text[begin : min(end, begin + REACH)]
        folded = fold(part)
        # One regular expression for all leaves takes seconds on a long query and text.
        likely = [leaf for leaf in leaves if leaf.literal_part in folded][:MOST_LEAVES]
        found = re.search("|".join(map(pattern_of, likely)), folded) if likely else None
        if found:  # folding may change the length; an approximate offset is good enough
            return begin + found.start() * len(part) // len(folded)
    return None


def _on_one_line(text: str) -> str:
    """Return the text on one line, without unprintable characters."""
    shown = " ".join(text.split())
    if shown.isprintable():
        return shown
    return " ".join("".join(c if c.isprintable() else " " for c in shown).split())
