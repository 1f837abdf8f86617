"""Takes back what a session has changed, by the function of the command; shows it beforehand."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.board.requests import ActionResult, fieldless
from ralphgen.board.stored_text import line, paragraph
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.history.entries import shown, without_hidden
from ralphgen.history.revert import RowResult
from ralphgen.history.undo import LineResult, Undone, finish_undone, undo_session
from ralphgen.ledger.backup import backed_up
from ralphgen.runtime.errors import one_line
from ralphgen.trust.items import hidden_in

LONGEST = 300  # characters of a value
MOST = 500  # rows and lines that are shown


@dataclass(frozen=True, slots=True)
class UndoneRow:
    """What comes of a row or a line: `done` in words, or why it is `left`, with both versions."""

    name: str
    done: str
    left: str
    session: str
    now: str


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """What an undo would come to; `changed` counts what it sets back, `left` what it leaves.

    Of very many rows the first are shown, those that are left before the others.
    """

    changed: int
    left: int
    rows: tuple[UndoneRow, ...]
    more: int


def undo_preview(root: Path, session_id: str) -> UndoPreview:
    """Return what would come of the undo of a session; nothing is changed.

    Raises `UsageError` for a session that is not on record, and `ProjectError` where the ledger
    cannot be read.
    """
    return _preview(undo_session(root, session_id, dry_run=True), hidden_in(root))


def undo(root: Path, session_id: str) -> ActionResult:
    """Set back what a session has changed, after a backup; what others changed since is left."""
    try:
        if not session_id.isprintable():
            raise UsageError("invalid session id")
        found = undo_session(root, session_id, dry_run=True)
        if not found.changed:
            return ActionResult(not found.left, "nothing was undone", _told(root, found))
        finish_undone(root)
        backup = backed_up(root)
        found = undo_session(root, session_id)
    except RalphgenError as error:
        return ActionResult(False, "nothing was undone", (), fieldless(error.problems))
    noun = "row or line" if found.changed == 1 else "rows and lines"
    again = f'to redo it, undo the session "{one_line(found.session)}"'
    message = f"{found.changed:,} {noun} restored; {again}"
    return ActionResult(not found.left, message, (backup, *_told(root, found)))


def _told(root: Path, found: Undone) -> tuple[str, ...]:
    rows = _preview(found, hidden_in(root)).rows
    return tuple(f"{row.name} left: {row.left}" for row in rows if row.left)


def _preview(found: Undone, hidden: Collection[str]) -> UndoPreview:
    rows = [_row(one, hidden) for one in found.rows]
    rows += [_line(one) for one in found.lines if not one.gone or one.left]
    rows.sort(key=lambda row: not row.left)
    left = sum(bool(row.left) for row in rows)
    return UndoPreview(found.changed, left, tuple(rows[:MOST]), max(0, len(rows) - MOST))


def _row(row: RowResult, hidden: Collection[str]) -> UndoneRow:
    key = row.key[0] if len(row.key) == 1 else row.key
    columns = f": {', '.join(row.columns)}" if row.done == "set back" else ""
    versions = ("", "")
    if row.done is None:
        both = (row.session, row.now)
        left, now = (_values(without_hidden(row.table, one, hidden)) for one in both)
        versions = left, now
    return UndoneRow(
        name=line(f"{row.table} {key}"),
        done=line(f"{row.done}{columns}") if row.done is not None else "",
        left=line(row.left),
        session=versions[0],
        now=versions[1],
    )


def _line(found: LineResult) -> UndoneRow:
    done = "put back" if found.put_back else "taken out"
    name = line(f"{found.file}: {found.line}")
    return UndoneRow(name, "" if found.left else done, line(found.left), "", "")


def _values(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "not there"
    return paragraph(json.dumps(shown(dict(values)), ensure_ascii=False), LONGEST)
