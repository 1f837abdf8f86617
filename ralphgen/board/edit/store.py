"""Writes a discipline's row and the config, both or neither, in a process of its own.

SQLite's locks are those of a process, and end as soon as any of its threads opens the file and
closes it (POSIX). The board does that all the time, so it writes from here.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from ralphgen.errors import Problem, ProjectError
from ralphgen.output.files import put
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.sqlite.database import Database

State = Literal["stored", "changed", "refused"]
PATIENCE = 5.0  # seconds that a person waits for other writers
FOUND = "SELECT typeof(COLUMN), hex(CAST(COLUMN AS BLOB)) FROM disciplines WHERE name = ?"
SAME = "SELECT COLUMN FROM disciplines WHERE name = ?"
CHANGE = "UPDATE disciplines SET COLUMNS WHERE name = ?"


@dataclass(frozen=True, slots=True)
class Order:
    """What to write: `values` by column, and the text of the config, None where it stays.

    Only where all is as it was when this was decided: `expected` are the SQLite type and the bytes,
    in hex, of columns, and `before` is the text of the config, None where there was no file.
    """

    database: str
    discipline: str
    expected: Mapping[str, tuple[str, str]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    config: str
    before: str | None = field(repr=False)
    after: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """What came of an order; `changed` and `refused` leave everything as it was."""

    state: State
    problems: tuple[Problem, ...] = ()


class _ChangedError(Exception):
    """Somebody else was faster."""


def stored(order: Order, patience: float = PATIENCE) -> Stored:
    """Carry an order out from a process of its own, which waits so many seconds for others.

    It is there all the same where this process ends meanwhile. What a power failure can part is the
    config, which is moved into place last, and the commit that follows it at once.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__],
        input=json.dumps({**asdict(order), "patience": patience}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        text = f"the process that should save ended with exit code {done.returncode}"
        return Stored("refused", (Problem(text, "try again"),))
    return Stored(found["state"], tuple(Problem(*pair) for pair in found["problems"]))


class _Writer:
    """Carries an order out in this process, which must not open the database for anything else."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._config = Path(order.config)
        self._is_put = False

    def write(self, patience: float) -> None:
        """Write the row and the config; raises with nothing written."""
        try:
            if not self._order.values:
                self._put()
                return
            database = Database(self._order.database, patience)
            try:
                database.writing(lambda: self._both(database))
            finally:
                database.close()
        except BaseException:
            self._put_back()
            raise

    def _both(self, database: Database) -> None:
        """All that belongs into the transaction, which may be tried several times."""
        order = self._order
        for column, found in order.expected.items():
            if _rows(database, FOUND, column, order.discipline) != [found]:
                raise _ChangedError
        columns = ", ".join(f"{column} = ?" for column in order.values)
        change = CHANGE.replace("COLUMNS", columns)
        database.change(change, [*order.values.values(), order.discipline])
        for column, value in order.values.items():
            if _rows(database, SAME, column, order.discipline) != [(value,)]:
                raise ToolError(
                    f'the database keeps something else in "{column}" than it was given'
                )
        self._put()

    def _put(self) -> None:
        order = self._order
        if order.after is None:
            return
        if _text(self._config) != (order.after if self._is_put else order.before):
            raise _ChangedError
        put(self._config, order.after)
        self._is_put = True

    def _put_back(self) -> None:
        """Let the config be as it was, unless somebody else has changed it since."""
        if not self._is_put or _text(self._config) != self._order.after:
            return
        if self._order.before is None:
            self._config.unlink()
        else:
            put(self._config, self._order.before)


def carried_out(order: Order, patience: float) -> Stored:
    """What comes of an order in a process that does nothing else."""
    try:
        _Writer(order).write(patience)
    except _ChangedError:
        return Stored("changed")
    except ProjectError as error:
        return Stored("refused", error.problems)
    except (OSError, StartError, ToolError) as error:
        return Stored("refused", (Problem(str(error)),))
    return Stored("stored")


def _rows(database: Database, sql: str, column: str, discipline: str) -> list[tuple[object, ...]]:
    return database.rows(sql.replace("COLUMN", column), [discipline])


def _text(path: Path) -> str | None:
    """The text of the config; None where there is no file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def main() -> None:
    """Carry out the order on standard input, and say on standard output what came of it."""
    facts = json.load(sys.stdin)
    patience = facts.pop("patience")
    facts["expected"] = {column: tuple(found) for column, found in facts["expected"].items()}
    done = carried_out(Order(**facts), patience)
    problems = [(problem.text, problem.hint) for problem in done.problems]
    sys.stdout.write(json.dumps({"state": done.state, "problems": problems}))


if __name__ == "__main__":
    main()
