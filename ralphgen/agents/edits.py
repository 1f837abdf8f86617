"""Edits of a row or of the project: only changed fields are written, and no change is lost."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.agents.calls import Properties, Record, RefusalError, RowTools, stored_column
from ralphgen.errors import Problem, ProjectError
from ralphgen.kits.project import Project
from ralphgen.project.database import open_database, opened_database
from ralphgen.runtime.system import launched_session
from ralphgen.runtime.tasks import plain, today
from ralphgen.runtime.values import shortened
from ralphgen.sessions.decide import RowAsRead
from ralphgen.terminal.console import refuse_agents

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

PROJECT = {"title": "project_title", "description": "project_description"}
FOUND = "SELECT COLUMNS FROM metadata ORDER BY id LIMIT 1"
CHANGE = "UPDATE metadata SET COLUMNS WHERE id = (SELECT MIN(id) FROM metadata)"
ADD = "INSERT INTO metadata (COLUMNS) VALUES (MARKS)"
MOST_CHARACTERS = 20_000  # of a title or a description
TRIES = 5  # of a change, while others change the same row all the time
OpenTools = Callable[[RowAsRead], AbstractContextManager[RowTools]]
"""Gives tools that write nothing once a row is not as it was read."""


@dataclass(frozen=True, slots=True)
class FieldClash:
    """A field that two have changed: as one has read it, as the other left it, as it was typed.

    None stands for an empty one.
    """

    name: str
    read: object
    now: object
    typed: object

    def __str__(self) -> str:
        """Return a description in one sentence."""
        read, now = (_preview_value(value) for value in (self.read, self.now))
        typed = (
            f"you typed {_preview_value(self.typed)}"
            if self.typed is not None
            else "you emptied it"
        )
        text = f'"{self.name}" has changed in the meantime; nothing was written'
        return f"{text}: it was {read}, is now {now}, and {typed}"


class ClashError(RefusalError):
    """The same fields were changed elsewhere, and nothing was written (exit code 1)."""

    def __init__(self, clashes: Sequence[FieldClash]) -> None:
        super().__init__(str(clashes[0]))
        self.problems = tuple(Problem(str(clash)) for clash in clashes)
        self.clashes = tuple(clashes)


class EditedRow:
    """The row of a `kind` with a `key`, such as {"id": 7}, as the user has read it.

    `fields` are the arguments that set one of its fields, with their schemas, and `record` holds
    the row's values.
    """

    def __init__(
        self, tools: RowTools, opened: OpenTools, root: Path, kind: str, key: Record
    ) -> None:
        """Read the row; raises `RefusalError` if there is none."""
        self._tools, self._opened, self._root = tools, opened, root
        self.kind, self.key = kind, key
        known = tools.properties(f"update_{kind}")
        self.fields: Properties = {
            name: rule for name, rule in known.items() if name not in {*key, "clear"}
        }
        self.record, self._stored = self._read()

    def write(self, wanted: Mapping[str, object]) -> Record:
        """Change fields to the new values, None to empty one; return the answer of the tool.

        Raises `ClashError` if others have changed one of these fields to something else since they
        were read, and `RefusalError` if the tool refuses. After a clash, the reported values count
        as read.
        """
        for left in reversed(range(TRIES if wanted else 0)):
            record, stored = self._read()
            self._refuse_clashes(record, stored, wanted)
            rest = {name: value for name, value in wanted.items() if value != record.get(name)}
            if not rest:
                break
            try:
                return self._write_answer(rest, stored)
            except RefusalError:
                if not left or (record, stored) == self._read():
                    raise
        return {"changed": []}

    def _refuse_clashes(
        self, record: Record, stored: Mapping[str, object], wanted: Mapping[str, object]
    ) -> None:
        clashes = [
            FieldClash(name, self.record.get(name), record.get(name), typed)
            for name, typed in wanted.items()
            if stored.get(name) != self._stored.get(name) and record.get(name) != typed
        ]
        for name in (clash.name for clash in clashes):
            self.record = {**self.record, name: record.get(name)}
            self._stored = {**self._stored, name: stored.get(name)}
        if clashes:
            raise ClashError(clashes)

    def _write_answer(self, rest: Record, stored: Mapping[str, object]) -> Record:
        """Return the answer of the writing tool, which refuses if the row has changed since."""
        arguments = {**self.key, **{name: one for name, one in rest.items() if one is not None}}
        if emptied := sorted(name for name, value in rest.items() if value is None):
            arguments["clear"] = emptied
        tool = f"update_{self.kind}"
        if launched_session():
            return self._tools.ask(tool, **arguments)
        (key,) = self.key.values()
        columns = {
            stored_column(name, self.fields[name]): stored[name] for name in rest if name in stored
        }
        with self._opened(RowAsRead(self.kind, key, columns)) as tools:
            return tools.ask(tool, **arguments)

    def _read(self) -> tuple[Record, Mapping[str, object]]:
        """Return the row as the tool shows it, with its fields as stored at the same time."""
        before = self._now_stored()
        while True:
            record = self._tools.ask(f"get_{self.kind}", **self.key)
            if launched_session():  # an agent has its server alone
                return record, record
            stored = self._now_stored()
            if stored == before:
                return record, stored
            before = stored

    def _now_stored(self) -> Mapping[str, object]:
        """Return the stored fields by their names; empty if there is no row."""
        if launched_session():
            return {}
        table, ((column, key),) = f"{self.kind}s", self.key.items()
        names = {stored_column(name, rule): name for name, rule in self.fields.items()}
        with Project(self._root).task_rows() as (rows, _):
            columns = rows.available_columns(table, *names)
            found = rows.read(table, columns, f"WHERE {column} = ?", key)
        row = zip(columns, found[0], strict=True) if found else ()
        return {names[column]: plain(value) for column, value in row}


class EditedProject:
    """The project's title and description as a user has read them, edited as an `EditedRow` is.

    No tool writes them: they are the user's own. Raises `UsageError` below `ralphgen launch`, and
    `ProjectError` if the project has no place for them.
    """

    def __init__(self, root: Path) -> None:
        """Read the row of the project in `root`."""
        refuse_agents("project edit")
        self._root = root
        self.kind, self.key = "project", {"name": root.name}
        with open_database(root) as connection:
            schema = Project(root).schema_in(connection)
            table = schema.table("metadata")
            names = {column.name for column in table.columns} if table is not None else set[str]()
            self.fields: Properties = {
                name: {"type": "string"}
                for name, column in PROJECT.items()
                if {"id", column} <= names and not schema.hidden("metadata", column)
            }
            if not self.fields:
                text = "the schema stores no title or description of the project"
                raise ProjectError(
                    text, 'add project_title and project_description to the table "metadata"'
                )
            self._columns = tuple(PROJECT[name] for name in self.fields)
            self._created = "project_created" in names
            found = connection.rows(self._sql())
        self.record = self._recorded(found)

    def write(self, wanted: Mapping[str, object]) -> Record:
        """Change fields to the new values, None to empty one; return the names of changed fields.

        Raises `ClashError` if others have changed one of these fields to something else since they
        were read, and `RefusalError` for a value that cannot be stored.
        """
        for name, value in wanted.items():
            _refuse_unfit(name, value, self.fields)
        with opened_database(self._root) as database:
            changed: list[str] = database.writing(lambda: self._write_changes(database, wanted))
        return {"changed": changed}

    def _write_changes(self, database: "Database", wanted: Mapping[str, object]) -> list[str]:
        """Write within a transaction, which may run several times."""
        found = database.rows(self._sql())
        now = self._recorded(found)
        clashes = [
            FieldClash(name, self.record.get(name), now.get(name), typed)
            for name, typed in wanted.items()
            if now.get(name) != self.record.get(name) and now.get(name) != typed
        ]
        if clashes:
            self.record = now
            raise ClashError(clashes)
        changed = [name for name, value in wanted.items() if value != now.get(name)]
        values = {PROJECT[name]: wanted[name] for name in changed}
        if values and found:
            settings = ", ".join(f"{column} = ?" for column in values)
            database.change(CHANGE.replace("COLUMNS", settings), [*values.values()])
        elif values:
            row = {"id": 1, "project_title": self._root.name, **values}
            if self._created:
                row["project_created"] = today()
            marks = ", ".join("?" * len(row))
            sql = ADD.replace("COLUMNS", ", ".join(row)).replace("MARKS", marks)
            database.change(sql, [*row.values()])
        return changed

    def _sql(self) -> str:
        return FOUND.replace("COLUMNS", ", ".join(self._columns))

    def _recorded(self, found: Sequence[tuple[object, ...]]) -> Record:
        values = found[0] if found else ()
        pairs = zip(self.fields, map(plain, values), strict=False)
        return {name: value for name, value in pairs if value not in (None, "")}


def _refuse_unfit(name: str, value: object, fields: Properties) -> None:
    """Raise `RefusalError` for a field that the project does not have, or an unfit value."""
    known = ", ".join(fields)
    if name not in fields:
        raise RefusalError(f"the project has no field {shortened(name)}: expected {known}")
    if value is None and name != "title":
        return
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RefusalError(f'"{name}" must not be blank')
    if not isinstance(value, str):
        raise RefusalError(f'"{name}" is {shortened(value)}: expected a string')
    if "\0" in value:
        raise RefusalError(f'"{name}" contains a NUL character: remove it')
    if len(value) > MOST_CHARACTERS:
        most = f"{MOST_CHARACTERS:,} characters"
        raise RefusalError(f'"{name}" has {len(value):,} characters: expected at most {most}')


def _preview_value(value: object) -> str:
    return "empty" if value is None else shortened(value)
