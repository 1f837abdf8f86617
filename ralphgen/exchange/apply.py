"""Writes the edits of a merge, in an order that the database takes: all of them, or none."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.exchange.lines import SHOWN, shown_key
from ralphgen.exchange.merge import RowEdit, after
from ralphgen.exchange.own import Own
from ralphgen.exchange.rows import SECRET, Rows, read_rows, same, unmasked
from ralphgen.exchange.spelling import spelled
from ralphgen.exchange.tables import Key, Value, key_values
from ralphgen.project.database import first_line
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.processes.secrets import MASK

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

SETTLE = "nothing was changed; fix this on one side, then import again"
LEFT_OUT = "a trigger or an ON CONFLICT clause discarded it"
_SERVERS = "SELECT mcp_servers FROM disciplines WHERE name = ?"
_Broken = tuple[Any, ...]  # of a foreign key: table, number of the row, parent, which key


class EditWriter:
    """Writes edits of a project's rows within a transaction that writes.

    `masked` are the names of disciplines some of whose secrets are not known.
    """

    def __init__(self, database: "Database", own: Own) -> None:
        """Write to `database`, whose rows are `own`."""
        self.masked: dict[str, None] = {}
        self._database = database
        self._own = own

    def write(self, edits: Sequence[RowEdit]) -> None:
        """Write the edits.

        One that the database refuses is tried again behind the others: a value that has to be
        unique may get free. Raises `ToolError` for what the database refuses in the end, and
        `ProjectError` where rows would go that nobody has removed, or name rows that are gone.
        """
        database, own = self._database, self._own
        before = {*database.broken_keys()}
        database.change(database.sql.DEFER_KEYS)
        pending = in_order(edits, own)
        while pending:
            refused = [(edit, error) for edit in pending if (error := self._tried(edit))]
            is_stuck = len(refused) == len(pending)
            pending = self._loosened(refused) if is_stuck else [edit for edit, _ in refused]
        self._count_on(edits)
        self._refuse_loss(edits)
        self._refuse_broken(before)

    def _tried(self, edit: RowEdit) -> Exception | None:
        """Write an edit; return why the database refuses it."""
        database, is_typed = self._database, self._own.is_typed
        if is_typed:
            database.change("SAVEPOINT ralphgen_edit")
        try:
            written = self._write(edit)
        except database.refusals as error:
            if is_typed:
                database.change("ROLLBACK TO SAVEPOINT ralphgen_edit")
            elif not database.connection.in_transaction:  # a constraint ON CONFLICT ROLLBACK
                raise _refusal(edit, error) from error
            return error
        if is_typed:
            database.change("RELEASE SAVEPOINT ralphgen_edit")
        if written or edit.kind == "remove":
            return None
        # To be changed it may be a new row that is not there yet.
        return LookupError(LEFT_OUT if edit.kind == "add" else "the row does not exist")

    def _write(self, edit: RowEdit) -> int:
        """Write an edit; return how many rows that has changed."""
        name, key = edit.key
        table, values = self._own.tables[name], dict(edit.values)
        of, column = SECRET
        if name == of and column in values:
            found = self._database.row(_SERVERS, [key])
            values[column] = unmasked(found[0] if found else None, values[column])
            if MASK in str(values[column]):
                self.masked[str(key)] = None
        known = dict(zip(table.key, key_values(key), strict=True))
        if self._own.is_typed:
            values, known = (
                {one: spelled(table.kinds[one], one, value) for one, value in row.items()}
                for row in (values, known)
            )
        where = " AND ".join(f"{quoted(one)} = ?" for one in known)
        named = ", ".join(map(quoted, values))
        if edit.kind == "add":
            given = self._database.sql.GIVEN_NUMBER
            marks = ", ".join("?" * len(values))
            sql = f"INSERT INTO {quoted(name)} ({named}){given} VALUES ({marks})"
            return self._database.change(sql, [*values.values()])
        if edit.kind == "change":
            marks = ", ".join(f"{quoted(one)} = ?" for one in values)
            sql = f"UPDATE {quoted(name)} SET {marks} WHERE {where}"
            return self._database.change(sql, [*values.values(), *known.values()])
        return self._database.change(f"DELETE FROM {quoted(name)} WHERE {where}", [*known.values()])

    def _loosened(self, refused: Sequence[tuple[RowEdit, Exception]]) -> list[RowEdit]:
        """Return the edits with new rows that name nobody yet, and what they name behind all.

        So rows that name each other come in. Raises `ToolError` where that is of no use.
        """
        edits: list[RowEdit] = []
        later: list[RowEdit] = []
        for edit, _ in refused:
            table = self._own.tables[edit.key[0]]
            names = {
                column: value
                for column, value in edit.values.items()
                if column in table.references and column in table.optional and value is not None
            }
            if edit.kind == "add" and names:
                alone = {one: value for one, value in edit.values.items() if one not in names}
                edits.append(replace(edit, values=alone))
                later.append(RowEdit("change", edit.key, names))
            else:
                edits.append(edit)
        if not later:
            edit, error = refused[0]
            raise _refusal(edit, error) from error
        return [*edits, *later]

    def _count_on(self, edits: Sequence[RowEdit]) -> None:
        """Have new numbers begin behind those of rows that were added."""
        for name in dict.fromkeys(edit.key[0] for edit in edits if edit.kind == "add"):
            table = self._own.tables[name]
            if [table.kinds[column] for column in table.key] == ["INTEGER"]:
                self._database.continue_numbers(name, table.key[0])

    def _refuse_loss(self, edits: Sequence[RowEdit]) -> None:
        """Raise `ProjectError` where rows are gone, or name nobody, and no edit says so."""
        own, edited = self._own, {edit.key for edit in edits}
        now = own.ordered(read_rows(self._database, own.tables))
        problems = []
        for key in after(own.rows, tuple(edits)):
            before = own.rows.get(key, {})
            if before and key not in now:
                problems.append(f"{shown_key(key)} would be deleted by a cascade")
            elif before and key not in edited:
                problems += [
                    f'"{column}" of {shown_key(key)} would be changed by a cascade'
                    for column in own.tables[key[0]].references
                    if not same(before[column], now[key][column])
                ]
        _refuse(problems)

    def _refuse_broken(self, before: Collection[_Broken]) -> None:
        """Raise `ProjectError` for rows that name one that is not there, unless they did before."""
        broken = sorted({*self._database.broken_keys()} - {*before}, key=repr)
        _refuse([f'{self._shown(one)} refers to a missing row of "{one[2]}"' for one in broken])

    def _shown(self, broken: _Broken) -> str:
        name, number, *_ = broken
        table = self._own.tables.get(name)
        if table is None or number is None:
            return f'a row of "{name}"'
        columns = ", ".join(map(quoted, table.key))
        sql = f"SELECT {columns} FROM {quoted(name)} WHERE _rowid_ = ?"
        found = self._database.row(sql, [number])
        key = None if found is None else table.key_of(dict(zip(table.key, found, strict=True)))
        return f'a row of "{name}"' if key is None else shown_key((name, key))


def in_order(edits: Sequence[RowEdit], own: Own) -> list[RowEdit]:
    """Return the edits so that rows come after those that they name, and go before them."""
    kept = [edit for edit in edits if edit.kind != "remove"]
    gone = {edit.key: own.rows[edit.key] for edit in edits if edit.kind == "remove"}
    added = {edit.key: edit.values for edit in kept if edit.kind == "add"}
    by_key = {edit.key: edit for edit in edits}
    changed = [edit for edit in kept if edit.kind == "change"]
    return [
        *(by_key[key] for key in _parents_first(added, own)),
        *changed,
        *(by_key[key] for key in reversed(_parents_first(gone, own))),
    ]


def _parents_first(rows: Rows, own: Own) -> list[Key]:
    """Return the keys of rows, each behind those that it names; of a circle, in any order."""
    wanted = {place for table in own.tables.values() for place in table.references.values()}
    known: dict[tuple[str, str, Value], list[Key]] = {}
    for key, row in rows.items():
        for column in row:
            if (key[0], column) in wanted:
                known.setdefault((key[0], column, row[column]), []).append(key)
    ahead: dict[Key, list[Key]] = {
        key: [
            parent
            for column, place in own.tables[key[0]].references.items()
            for parent in known.get((*place, row.get(column)), ())
            if parent != key
        ]
        for key, row in rows.items()
    }
    sorter = TopologicalSorter(ahead)
    with suppress(CycleError):
        sorter.prepare()
    found: dict[Key, None] = {}
    while ready := sorter.get_ready():
        found.update(dict.fromkeys(ready))
        sorter.done(*ready)
    return [*found, *(key for key in rows if key not in found)]


def _refusal(edit: RowEdit, error: Exception) -> ToolError:
    said = first_line(error)
    detail = str(getattr(getattr(error, "diag", None), "message_detail", None) or "")
    more = f": {detail}" if detail.startswith("Key ") else ""  # else it is the whole row
    return ToolError(f"{shown_key(edit.key)}: rejected by the database: {said}{more}")


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        *others, last = problems[:SHOWN]
        raise ProjectError.of([*map(Problem, others), Problem(last, SETTLE)])
