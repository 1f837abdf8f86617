"""Reads numbers of any length without the loss of a digit."""

from decimal import Decimal

from ralphgen.project.database import Snapshot


def exact_numbers(connection: Snapshot) -> None:
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

    connection.connection.adapters.register_loader("numeric", NumericLoader)
    connection.connection.adapters.register_loader("jsonb", TextLoader)


def number(text: str) -> str | int | float:
    """Return the number that a text spells, or the text where none of 64 bits is the same."""
    if text.lstrip("-").isdecimal():
        return int(text) if -(2**63) <= int(text) < 2**63 else text
    near = float(text)
    return near if Decimal(repr(near)) == Decimal(text) else text
