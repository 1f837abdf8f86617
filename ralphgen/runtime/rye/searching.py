"""The tool that searches: items that match a query, the best first, a page at a time."""

from __future__ import annotations

from ..errors import CodedError
from ..results import fitted, page
from .item import KNOWLEDGE, SOURCES, TYPES
from .searches.facts import shown_metadata
from .searches.filters import CREATED, check_filters, moment_of, passes
from .searches.previews import finder, preview
from .searches.queries import leaves_of, parse_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .item import Item
    from .searches.queries import Node
    from .searches.shelf import Shelf
    from .spaces import Spaces
    from .workspace import Rye

ALL = "all"
LIMIT = 10  # results of a page, where the caller does not say
DISTANCE = 2  # letters of a word that may be wrong, where the caller does not say
DIGITS = 4  # of a score behind the point
NEWEST, NAME = "date", "name"


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
        fuzzy = arguments.get("fuzzy") or {}
        self._distance = fuzzy.get("max_distance", DISTANCE) if fuzzy.get("enabled") else 0

    def page(self, shelves: list[Shelf]) -> dict[str, Any]:
        """The answer."""
        hits = self._sorted(self._hits(shelves))
        offset = self._arguments.get("offset") or 0
        limit = self._arguments.get("limit") or LIMIT
        wanted = finder(leaves_of(self._query))
        entries = [self._entry(hit, wanted) for hit in hits[offset : offset + limit]]
        found = page("results", entries, range(limit), limit=limit, total=len(hits))
        found.pop("next_cursor", None)
        following = offset + len(found["results"])
        further = {"next_offset": following} if following < len(hits) else {}
        return {
            "status": "success",
            **found,
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

    def _entry(self, hit: Hit, wanted: Any) -> dict[str, Any]:
        """What an answer says of a hit."""
        item, facts = hit.shelf.item(hit.row), hit.shelf.facts(hit.row)
        problems = {"problems": facts["problems"]} if facts["problems"] else {}
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
            **self._text_of(item, facts["start"], wanted),
            "metadata": shown_metadata(facts),
            **problems,
            "shadows": self._spaces.shadows(item),
            "shadowed_by": self._spaces.shadowed_by(item),
        }

    def _text_of(self, item: Item, start: int, wanted: Any) -> dict[str, Any]:
        """What its text is shown by; nothing where it is gone since it was looked at."""
        from .authenticity.signatures import split
        from .files import read_item

        try:
            text = read_item(item)
        except CodedError:
            return {"preview": ""}
        _, bare = split(text, item.extension)
        if item.type == KNOWLEDGE:  # what goes before is said by the result itself
            bare, start = bare[start:], 0
        state = self._rye.trust().verdict(item, text).state
        return {"preview": preview(bare, start, wanted), "signature": state}


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
