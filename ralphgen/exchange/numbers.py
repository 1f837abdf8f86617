"""Reads numbers of PostgreSQL without the loss of a digit."""

import json
from decimal import Decimal
from typing import Any

from ralphgen.project.postgresql import PostgresqlConnection


class _Digits(str):
    """A number of JSON as it is spelled."""

    __slots__ = ()


def exact_numbers(connection: PostgresqlConnection) -> None:
    """Have a connection read numerics as numbers where these are the same, else as their text.

    JSON is read as its text.
    """
    from psycopg.adapt import Buffer, Loader
    from psycopg.types.string import TextLoader

    class NumericLoader(Loader):
        """Reads a number of any length."""

        def load(self, data: Buffer) -> str | int | float:
            """Return it as a number that a column of SQLite can hold, else as text."""
            return number(bytes(data).decode())

    connection.raw.adapters.register_loader("numeric", NumericLoader)
    connection.raw.adapters.register_loader("jsonb", TextLoader)


def read_exactly(text: str) -> Any:
    """Return the value of JSON, for `spelled_exactly`; raises what `json.loads` raises."""
    return json.loads(text, parse_float=_Digits)


def spelled_exactly(value: Any) -> str:
    """Return a value of `read_exactly` as JSON without spaces, and with all digits."""
    if isinstance(value, dict):
        pairs = ((spelled_exactly(key), spelled_exactly(one)) for key, one in value.items())
        return f"{{{','.join(f'{key}:{one}' for key, one in pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(spelled_exactly, value))}]"
    return value if isinstance(value, _Digits) else json.dumps(value, ensure_ascii=False)


def number(text: str) -> str | int | float:
    """Return the number that a text spells, or the text where none of 64 bits is the same."""
    if text.lstrip("-").isdecimal():
        return int(text) if -(2**63) <= int(text) < 2**63 else text
    near = float(text)
    return near if Decimal(repr(near)) == Decimal(text) else text
