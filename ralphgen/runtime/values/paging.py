"""Answers of a size that an agent can read: pages, and records whose long parts are cut."""

from __future__ import annotations

from .encoding import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

PAGE = 50  # rows of a page, where the caller does not say
MAX_CHARACTERS = 40_000  # of an answer
AROUND = 1_000  # of them for what stands around the rows of a page
LONG_TEXT_IN_LIST = 500
# Characters of a text and items of a list that a single record shows, ever fewer until it fits.
STEPS = (
    *((8_000, 1_000), (4_000, 500), (2_000, 200), (1_000, 100)),
    *((400, 50), (100, 20), (40, 8), (20, 2)),
)
DEEPEST = 12  # lists and objects within each other
LONG_KEY = 100  # characters of an object's key
LONGEST_CUT = 5_000  # characters of the names of what is cut
_FRAME = '{,"cut":}'
NAMED_CUTS = 20  # beyond them, the fields are named without their parts


def size(value: object) -> int:
    """Return the characters of a value as compact JSON."""
    return len(write_json(value))


def page(
    name: str,
    rows: Sequence[dict[str, Any]],
    cursors: Sequence[object],
    *,
    limit: int,
    total: int,
    around: int = AROUND,
) -> dict[str, Any]:
    """Return the first rows of a list, at most `limit` of them and within the size of an answer.

    `rows` may hold one row more than `limit`, the sign that there are others; `cursors` says,
    row by row, after what the next page begins. `around` are the characters of what stands around
    the rows.
    """
    kept = leading(rows[:limit], MAX_CHARACTERS - around)
    answer: dict[str, Any] = {name: kept, "total": total}
    if len(kept) < len(rows):
        answer["next_cursor"] = str(cursors[len(kept) - 1])
    return answer


def leading(
    rows: Iterable[dict[str, Any]], room: int = MAX_CHARACTERS - AROUND
) -> list[dict[str, Any]]:
    """Return as many of the first rows as an answer has room for.

    Those behind them are not asked for.

    The first one is there however long it is, cut until it fits, so that each page leads on.
    """
    kept: list[dict[str, Any]] = []
    for row in rows:
        record = shortened(row, LONG_TEXT_IN_LIST, PAGE)
        if size(record) >= room:
            if kept:
                break
            record = fitted(row, room)
        room -= size(record) + 1
        kept.append(record)
    return kept


def fitted(record: dict[str, Any], room: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the record, its longest parts cut until it fits; `cut` names what is not whole."""
    candidate: dict[str, Any] = {}
    for characters, items in STEPS:
        candidate = shortened(record, characters, items)
        if size(candidate) <= room:
            return candidate
    return _without_longest(candidate, room)


def shortened(record: dict[str, Any], characters: int, items: int) -> dict[str, Any]:
    """Return a copy without texts over `characters` or lists over `items`, its cut fields in `cut`.

    What UTF-8 cannot carry, half of a surrogate pair, is shown as U+FFFD.
    """
    cuts = {
        name: _Cut(characters, items)
        for name, value in record.items()
        if not _is_short(value, characters)
    }
    short = {
        _whole(name): cuts[name].short(value, name, 0) if name in cuts else value
        for name, value in record.items()
    }
    names = sorted({_whole(part) for cut in cuts.values() for part in cut.names})
    if len(names) > NAMED_CUTS:
        names = sorted(_whole(name) for name, cut in cuts.items() if cut.names)
    return {**short, "cut": names} if names else short


def _is_short(value: Any, characters: int) -> bool:
    """Return whether a value is surely shown as it is."""
    if isinstance(value, str):
        return len(value) <= characters and value.isascii()
    return not isinstance(value, (list, dict))


class _Cut:
    """Makes values short, and notes the names of those that were not."""

    __slots__ = ("_characters", "_items", "names")

    def __init__(self, characters: int, items: int) -> None:
        self._characters = characters
        self._items = items
        self.names: set[str] = set()

    def short(self, value: Any, name: str, depth: int) -> Any:
        """Return the value, short; `name` says where it stands, `depth` in how many others."""
        if isinstance(value, str):
            return self._text(value, name, self._characters)
        if not isinstance(value, (list, dict)):
            return value
        if depth > DEEPEST:
            self.names.add(name)
            return "…"
        if len(value) > self._items:
            self.names.add(name)
        if isinstance(value, list):
            return [self.short(item, name, depth + 1) for item in value[: self._items]]
        return {
            self._text(key, name, LONG_KEY): self.short(
                item, name if depth > 1 else f"{name}.{_whole(key[:LONG_KEY])}", depth + 1
            )
            for key, item in list(value.items())[: self._items]
        }

    def _text(self, text: str, name: str, characters: int) -> str:
        if len(text) > characters:
            self.names.add(name)
            text = text[:characters] + "…"
        return _whole(text)


def _whole(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _without_longest(record: dict[str, Any], room: int) -> dict[str, Any]:
    """Return the record without its longest fields, as many as it takes.

    They are named in `cut`, where there are not too many of them.
    """
    parts = record.pop("cut", ())
    beginnings = {part[:at] for part in parts for at, sign in enumerate(part) if sign == "."}
    cut = record.keys() & beginnings.union(parts)
    lengths = {name: size({name: value}) for name, value in record.items()}
    total, names = sum(lengths.values()), size(sorted(cut))
    for name in sorted(record, key=lambda name: lengths[name], reverse=True):
        if total + min(names, LONGEST_CUT) + len(_FRAME) <= room:
            break
        del record[name]
        total -= lengths[name]
        if name not in cut:
            cut.add(name)
            names += size(name) + 1
    return {**record, "cut": _named(sorted(cut))}


def _named(names: list[str]) -> list[str]:
    """Return names, or as many as there is room for and how many more there are."""
    if size(names) <= LONGEST_CUT:
        return names
    kept: list[str] = []
    room = LONGEST_CUT - 2 * LONG_KEY
    for name in names:
        short = _whole(name[:LONG_KEY])
        room -= size(short) + 1
        if room < 0:
            break
        kept.append(short)
    return [*kept, f"{len(names) - len(kept):,} more"]
