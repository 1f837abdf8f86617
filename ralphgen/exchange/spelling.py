"""Converts values of a file to the types of the columns of a server."""

import json
import re
from typing import Any

from ralphgen.runtime.tasks.rows import decode_integers, decode_strings, encode
from ralphgen.runtime.values.encoding import read_written_json, write_written_json

NUL = "a string contains the character U+0000, which the database cannot store"
_FROM_TEXT = ("NUMERIC", "DECIMAL", "ANY", "OPAQUE", "BOOLEAN", "REAL")
_NUMBERS = ("depends_on",)  # lists that older programs wrote as 1;2, of numbers and not of texts


def spelled(kind: str, column: str, value: Any) -> Any:
    """Return a value for a column of a kind, as `read_tables` names it.

    Lists that are no JSON, as older programs wrote them, become JSON where a column takes that
    alone. Raises `ValueError` for what the column cannot hold, as far as it can be told.
    """
    if value is None:
        return None
    if isinstance(value, str) and "\0" in value:
        raise ValueError(NUL)
    if kind == "BLOB" or isinstance(value, bytes):
        return _as_bytes(kind, value)
    if kind == "JSON":
        return _as_json(column, value)
    if kind.endswith("[]"):
        return _array(kind, column, value)
    if isinstance(value, float) and kind == "INTEGER":
        if not value.is_integer():
            raise ValueError(f"{value} does not fit the integer column")
        return int(value)
    # The server makes the value of the column from a number as text, yes or no too.
    return str(value) if kind in _FROM_TEXT else value


def _as_bytes(kind: str, value: Any) -> bytes:
    if kind != "BLOB":
        raise ValueError(f"bytes do not fit the {kind.lower()} column")
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise ValueError("a number does not fit the bytea column")


def _as_json(column: str, value: Any) -> str:
    """Return JSON text that jsonb takes: it has no NUL in it, and no half of a character."""
    text = value if isinstance(value, str) else repr(value)
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return encode(_items(column, value))
    if "\\u" in text:
        _refuse_unstorable(json.dumps(found, ensure_ascii=False))
    return text


def _array(kind: str, column: str, value: Any) -> str:
    """Return a stored list as an array's text; raise `ValueError` for what is none."""
    try:
        found = json.loads(value, parse_float=str, parse_int=str, parse_constant=_refused)
        if kind == "JSON[]" and isinstance(found, list):  # whose items may be lists themselves
            items = read_written_json(value)
            found = [None if one is None else write_written_json(one) for one in items]
    except (ValueError, TypeError, RecursionError):
        found = None
    text = _array_text(found if isinstance(found, list) else _items(column, value))
    _refuse_unstorable(text)
    return text


def _array_text(item: Any) -> str:
    if isinstance(item, list):
        return f"{{{','.join(map(_array_text, item))}}}"
    if item is None:
        return "NULL"
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _items(column: str, value: Any) -> list[Any]:
    """Return the items of a stored list; raise `ValueError` for what is none."""
    decoded = (decode_integers if column in _NUMBERS else decode_strings)(value)
    if not decoded.readable:
        raise ValueError("invalid JSON, which the column requires")
    for item in decoded.values:
        _refuse_unstorable(str(item))
    return decoded.values


def _refuse_unstorable(text: str) -> None:
    if "\0" in text or "\\u0000" in text:
        raise ValueError(NUL)
    half = re.search("[\ud800-\udfff]", text)
    if half:
        raise ValueError(f"a string contains U+{ord(half[0]):04X}, half of a surrogate pair")


def _refused(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")
