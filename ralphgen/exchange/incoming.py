"""Takes the rows of one table into PostgreSQL, by way of a temporary table of the same columns."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.exchange.lines import SHOWN, shown_key
from ralphgen.exchange.spelling import spelled
from ralphgen.exchange.tables import Key
from ralphgen.project.database import first_line
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.entries import PREFIX

if TYPE_CHECKING:
    import psycopg

    from ralphgen.runtime.engine import Database

SETTLE = "nothing was changed; fix this in the file or in PostgreSQL, then import again"
_LINE = re.compile(r"line (\d+)(?:, column ([^:]+))?")  # of what PostgreSQL says where it failed


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """A column that is moved: its name in the file, that in PostgreSQL, and its kind there."""

    source: str
    name: str
    kind: str


class IncomingRows:
    """The rows of a table of the file, for the table of its name and key in PostgreSQL.

    PostgreSQL itself so says what it does not take, and what differs, before any row is added.
    """

    def __init__(
        self,
        database: "Database",
        table: str,
        key: Sequence[str],
        columns: Sequence[MovedColumn],
    ) -> None:
        """Work within the transaction of `database`; `key` are columns that tell rows apart."""
        self.table = table
        self._database = database
        self._connection: psycopg.Connection[Any] = database.connection
        self._table = quoted(table)
        self._key = key
        self._columns = columns
        self._names = ", ".join(quoted(column.name) for column in columns)
        self._incoming = f"pg_temp.{quoted(f'{PREFIX}{table}')}"
        pairs = (f"its.{quoted(one)} = new.{quoted(one)}" for one in key)
        self._on_key = " AND ".join(pairs)
        self._by_key = ", ".join(map(quoted, key))

    def load(self, source: sqlite3.Connection) -> None:
        """Read the rows of the file, in the order of their keys.

        Raises `ProjectError` for values that PostgreSQL does not hold, and `sqlite3.Error`.
        """
        import psycopg

        self._run(
            f"CREATE TEMPORARY TABLE {quoted(f'{PREFIX}{self.table}')} ON COMMIT DROP AS "
            f"SELECT {self._names} FROM {self._table} WITH NO DATA"
        )
        names = ", ".join(quoted(column.source) for column in self._columns)
        by_key = ", ".join(quoted(one.source) for one in self._columns if one.name in self._key)
        sql = f"SELECT {names} FROM {self._table} ORDER BY {by_key}"
        keys: list[Key] = []
        problems: list[Problem] = []
        text = f"COPY {self._incoming} ({self._names}) FROM STDIN".encode()
        try:
            with self._connection.cursor().copy(text) as copy:
                for row in self._spelled(source.execute(sql), keys, problems):
                    copy.write_row(row)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            problems.append(_refusal(error, keys))
        if problems:
            *others, last = problems
            raise ProjectError.of([*others, Problem(last.text, SETTLE)])

    def refuse_differing(self) -> None:
        """Raise `ProjectError` for rows that are in both and not the same."""
        differs = " OR ".join(
            f"its.{quoted(column.name)}::text IS DISTINCT FROM new.{quoted(column.name)}::text"
            for column in self._columns
        )
        keys = ", ".join(f"its.{quoted(one)}" for one in self._key)
        found = self._run(
            f"SELECT {keys} FROM {self._table} AS its JOIN {self._incoming} AS new "
            f"ON {self._on_key} WHERE {differs} ORDER BY {keys} LIMIT {SHOWN}"
        )
        if found:
            shown = [
                f"{shown_key((self.table, key))} is a different row in PostgreSQL" for key in found
            ]
            *others, last = shown
            raise ProjectError.of([*map(Problem, others), Problem(last, SETTLE)])

    def add(self) -> int:
        """Add the rows that are not there, have numbers go on behind them; return how many.

        Raises `ProjectError` where the table does not take one.
        """
        import psycopg

        missing = (
            f"FROM {self._incoming} AS new WHERE NOT EXISTS "
            f"(SELECT 1 FROM {self._table} AS its WHERE {self._on_key}) ORDER BY {self._by_key}"
        )
        try:
            cursor = self._connection.execute(
                f"INSERT INTO {self._table} ({self._names}) OVERRIDING SYSTEM VALUE "
                f"SELECT {self._names} {missing}".encode()
            )
        except psycopg.IntegrityError as error:
            said = error.diag.message_primary or ""
            if (error.diag.message_detail or "").startswith("Key "):  # else it is the whole row
                said += f": {error.diag.message_detail}"
            raise ProjectError(
                f"PostgreSQL rejected rows of {self.table}: {said}", SETTLE
            ) from error
        if left := self._run(f"SELECT {self._by_key} {missing} LIMIT 1"):
            row = shown_key((self.table, left[0]))
            raise ProjectError(f"{row}: discarded by a PostgreSQL trigger", SETTLE)
        kinds = [column.kind for column in self._columns if column.name in self._key]
        if kinds in (["INTEGER"], [""]):  # of the ledger nothing is said
            self._database.continue_numbers(self.table, self._key[0])
        return cursor.rowcount

    def _spelled(
        self, rows: Iterable[Sequence[Any]], keys: list[Key], problems: list[Problem]
    ) -> Iterator[list[Any]]:
        """Yield the rows as PostgreSQL takes them; note their keys, and what it cannot take."""
        names = [column.name for column in self._columns]
        places = [names.index(one) for one in self._key]
        columns = [(column.kind, column.name) for column in self._columns]
        for row in rows:
            keys.append((self.table, tuple(row[at] for at in places)))
            values = []
            for (kind, name), value in zip(columns, row, strict=True):
                try:
                    values.append(spelled(kind, name, value))
                except ValueError as error:
                    problems.append(Problem(f'{shown_key(keys[-1])}: "{name}": {error}'))
                    values.append(None)
            if len(problems) >= SHOWN:
                return
            yield values

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def _refusal(error: "psycopg.Error", keys: Sequence[Key]) -> Problem:
    """Return what PostgreSQL says of a value, with the row and the column that it is in."""
    found = _LINE.search(error.diag.context or "")
    at = int(found[1]) - 1 if found else -1
    where = shown_key(keys[at]) if 0 <= at < len(keys) else "a row"
    column = f', "{found[2]}"' if found and found[2] else ""
    return Problem(f"{where}{column}: rejected by PostgreSQL: {first_line(error)}")
