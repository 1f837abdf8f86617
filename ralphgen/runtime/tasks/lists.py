"""Lists that columns hold as text, and other values of rows, as JSON and back."""

from __future__ import annotations

from ..encoding import JsonReader, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

# What is said of a list that was not stored as plain JSON of the right shape.
ESCAPED = "stored with escaped quotes, read leniently"
RAW = "stored with raw control characters, read leniently"
SEPARATED = "read as a ;-separated list"
NULL = "stored as null, read as an empty list"
NUMBERS = "numbers in a list of texts, read as text"
TEXTS = "integers stored in another form, read as integers"
UNREADABLE = "cannot be read as a list"
EMPTY = "[]"
_JSON_STARTS = ("[", "{", '"')
_INTEGER = "[+-]?[0-9]{1,18}"
_WHOLE_FLOATS = 2**53  # above it a float no longer says which integer was meant
_INFINITY = float("inf")
# Patterns are compiled at their first use: a server starts without them.
_LONE_SURROGATE = "[\ud800-\udfff]"


class Decoded:
    """What a stored list holds.

    `warning` says in words why the text was not plain JSON of the right shape, if so. Where
    `readable` is false, `values` is empty and the text must not be overwritten.
    """

    __slots__ = ("readable", "values", "warning")

    def __init__(
        self, values: list[Any], warning: str | None = None, *, readable: bool = True
    ) -> None:
        self.values = values
        self.warning = warning
        self.readable = readable


def decode_strings(stored: object) -> Decoded:
    """Return the texts of a stored list; integers among them become text, with a warning.

    `stored` is what the column holds: NULL and blank text are the empty list. Older servers left
    lists with escaped quotes and lists separated by semicolons: both are read, with a warning.
    """
    return _converted(decode_list(stored, plain=True), _string, NUMBERS)


def decode_integers(stored: object) -> Decoded:
    """Return the integers of a stored list; "7" and 7.0 are read as 7, with a warning."""
    return _converted(decode_list(stored, plain=True), _integer, TEXTS)


def decode_objects(stored: object) -> Decoded:
    """Return the objects of a stored list; with anything else among them it is unreadable."""
    return _converted(decode_list(stored), _object, "")


def decode_list(stored: object, *, plain: bool = False) -> Decoded:
    """Return the items of a stored list, of whatever JSON type they are.

    `plain` allows text that does not look like JSON: it is split at its semicolons.
    """
    text = "" if stored is None else stored
    if not isinstance(text, str):
        return unreadable()
    text = text.strip()
    if text in ("", EMPTY):
        return Decoded([])
    for candidate, warning in _candidates(text):
        value = _parsed(candidate, strict=warning is None)
        if isinstance(value, list):
            return Decoded(value, warning)
    if text == "null":
        return Decoded([], NULL)
    if plain and not text.lstrip("\ufeff").startswith(_JSON_STARTS):
        items = [item.strip() for item in text.split(";")]
        return Decoded([item for item in items if item], SEPARATED)
    return unreadable()


def unreadable() -> Decoded:
    """Return the result for text that is no list, which must not be overwritten."""
    return Decoded([], UNREADABLE, readable=False)


def encode(values: Sequence[Any]) -> str:
    """Return a list as compact JSON text as Ralph itself writes it: no spaces, no ASCII escapes.

    Half a surrogate pair, which SQLite cannot store, is escaped. Raises `ValueError` for NaN and
    infinity, which JSON does not know.
    """
    import re

    text = write_json(list(values))
    return re.sub(_LONE_SURROGATE, lambda half: f"\\u{ord(half[0]):04x}", text)


def joined(*warnings: str | None) -> str | None:
    """Return several warnings as one, `None` where there is none."""
    return "; ".join(warning for warning in warnings if warning) or None


def _candidates(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the texts that may be the JSON that was meant, each with its warning."""
    yield text, None
    yield text, RAW
    if '\\"' in text:
        whole = _parsed(f'"{text}"', strict=False)  # all that JSON escapes was escaped once more
        if isinstance(whole, str):
            yield whole, ESCAPED
        yield text.replace('\\"', '"'), ESCAPED


def _parsed(text: str, *, strict: bool) -> object:
    """Return the JSON value, `None` for text that is none or that would come back as another."""
    try:
        value: object = (_STRICT if strict else _LENIENT).read(text)
    except (ValueError, RecursionError):
        return None
    return value


def _refused(word: str) -> None:
    raise ValueError(f'"{word}" is not valid JSON')


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == _INFINITY:
        raise ValueError(f'"{digits}" is too large')
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys stand once each: of two, one would be lost."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return members


_STRICT = JsonReader(_distinct, _refused, real=_finite)
_LENIENT = JsonReader(_distinct, _refused, real=_finite, strict=False)


def _converted(found: Decoded, convert: Callable[[Any], object], warning: str) -> Decoded:
    """Return the items converted, with the warning where one changed; else an unreadable list."""
    if not found.values:
        return found
    items = [convert(item) for item in found.values]
    if not found.readable or any(item is None for item in items):
        return unreadable()
    changed = any(type(old) is not type(new) for old, new in zip(found.values, items, strict=True))
    separated = found.warning == SEPARATED
    return Decoded(items, joined(found.warning, warning if changed and not separated else None))


def _string(item: object) -> str | None:
    if isinstance(item, str):
        return item
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else None


def _integer(item: object) -> int | None:
    if isinstance(item, str):
        import re

        return int(item) if re.fullmatch(_INTEGER, item.strip()) else None
    if isinstance(item, float):
        return int(item) if item.is_integer() and abs(item) <= _WHOLE_FLOATS else None
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def _object(item: object) -> dict[str, Any] | None:
    return item if isinstance(item, dict) else None


def plain(value: Any) -> Any:
    """Return a stored value as JSON: what is no finite number as text, and blobs of old tables."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if not isinstance(value, float) or abs(value) < _INFINITY else str(value)
