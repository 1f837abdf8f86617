"""Exports a project's rows, and imports rows into it: the whole plan, or nothing."""

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import Problem, ProjectError, Say, plain
from ralphgen.exchange.merge import (
    SETTLE,
    EditWriter,
    MergedRows,
    RowEdit,
    after,
    broken_references,
    circle,
    dangling,
    merge,
    nearest,
    unreadable_lists,
)
from ralphgen.exchange.rows import (
    Key,
    MovedTable,
    Own,
    Rows,
    encode_rows,
    encode_value,
    key_label,
    no_rows,
    own_of,
    ralphs_tables,
    read_database_file,
    read_lines,
    read_own,
    refusal_of,
    refuse_unknown_columns,
    report_left_out,
)
from ralphgen.files import WRITE_HINT, put, refuse_irregular
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.tables import read_state
from ralphgen.project.database import opened_database
from ralphgen.project.root import project_home
from ralphgen.runtime.engine.sqlite.database import STEPS
from ralphgen.runtime.files import reason
from ralphgen.runtime.tasks import STATUSES
from ralphgen.runtime.tasks.claims import prerequisite_lists
from ralphgen.runtime.tasks.status import IMPORTED, record_reason

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

BASE = ".ralph/last-export.jsonl"
"""The last common state of this project and others; not for git."""

OLDER = tuple(f".ralph/backups/last-export-{number}.jsonl" for number in range(1, 5))
"""Earlier common states, the newest first."""

BEGINNING = b'{"table": "'  # of every export
RECIPE, TOOL = "manual", "import"  # of an import in the journal
SHOWN = 20  # rows in a message

Plan = Callable[[Own], MergedRows]
"""Plans the edits of the project's rows; called again when they are written."""


class _DryRunError(Exception):
    """All was tried, and nothing is to stay."""


def _unsaid(_line: str) -> None:
    """Ignore a message."""


def export_text(root: Path, say: Say = _unsaid) -> str:
    """Return the visible rows of the project in `root` as lines; equal rows give equal bytes.

    Rows and tables that cannot be moved are reported.
    """
    own = read_own(root)
    lost = [f"warning: {why}: imports leave this row out" for why in _refused(own).values()]
    more = [f"warning: imports leave out {len(lost) - SHOWN} more such rows"] * (len(lost) > SHOWN)
    for note in (*own.notes, *lost[:SHOWN], *more):
        say(note)
    return "".join(encode_rows(own.rows))


def export_file(root: Path, file: Path, say: Say = _unsaid) -> None:
    """Write the rows to a file, which is what the other side has from now on.

    Raises `ProjectError` where another file is there, such as the project's own database.
    """
    _refuse_another_file(file)
    text = export_text(root, say)
    put(file, text)
    _keep_base(root, text)


def import_rows(
    root: Path,
    file: Path,
    *,
    is_database: bool,
    dry_run: bool,
    allow_removals: bool,
    say: Say,
    strict: bool = False,
) -> tuple[RowEdit, ...]:
    """Merge the rows of an export, or of another project's database; return the changes.

    The common base is the last export or import. Unreadable lines are left out and reported, and
    nothing is removed then. Raises `ProjectError` for a conflict, for removals that are not
    allowed, and with `strict` for an unreadable line; nothing is changed then.
    """
    own = read_own(root)
    tables = own.tables
    left_out: list[str] = []
    theirs = (
        read_database_file(file, root).rows
        if is_database
        else read_lines(file, tables, left_out=left_out)
    )
    while lost := _refused(own, theirs):
        left_out += [f"{file}: {why}" for why in lost.values()]
        theirs = {key: row for key, row in theirs.items() if key not in lost}
    if strict and left_out:
        raise refusal_of(left_out)
    report_left_out(left_out, say)
    paths = [path for name in (BASE, *OLDER) if (path := project_home(root) / name).exists()]
    bases = [read_lines(path, tables, is_own=True) for path in paths]
    unsaid = _unsaid_tables(theirs, tables)

    def plan(own: Own) -> MergedRows:
        columns = {name: table.columns for name, table in own.tables.items()}
        refuse_unknown_columns(theirs, columns, str(file))
        ours = _without(own.rows, unsaid)
        known = [own.ordered(_without(rows, unsaid)) for rows in bases]
        rows = own.ordered(theirs)
        at = nearest(known, rows) if known else None
        if left_out and at is not None:  # one of these lines may be a row that seems to be gone
            rows = own.ordered({**known[at], **rows})
        merged = merge(None if at is None else known[at], ours, rows, known, own.ralphs)
        if not allow_removals:
            gone = [change.key for change in merged.changes if change.kind == "remove"]
            if gone and not merged.conflicts:
                raise ProjectError(
                    f"deleted there since the last export or import: {_key_list(gone)}",
                    "to delete them here too, pass --allow-removals",
                )
        stale = [f"{file} is older than the last export or import; merged as an older state"]
        silent = sorted({key[0] for rows in bases for key in rows} & unsaid)
        notes = [*_dangling(merged, own)]
        if own.has_tasks:
            notes += [*_waiting_in_vain(merged, rows), *_faulty_lists(merged, own)]
            notes += _odd_statuses(merged)
        notes += [f'{file} has no rows of "{name}"; the rows here are kept' for name in silent]
        return replace(merged, notes=(*(stale if at else ()), *notes))

    changes = import_planned(root, plan, dry_run=dry_run, say=say, theirs=theirs)
    if not dry_run and left_out and bases:
        theirs = {**bases[0], **theirs}
    if not dry_run:
        kept = {key: row for key, row in (bases or [{}])[0].items() if key[0] in unsaid}
        _keep_base(root, "".join(encode_rows({**kept, **theirs})))
    return changes


def import_planned(
    root: Path, plan: Plan, *, dry_run: bool, say: Say, theirs: Rows | None = None
) -> tuple[RowEdit, ...]:
    """Carry out a plan after a backup; return its changes. A dry run tries it and rolls it back.

    Faults that `theirs`, the rows of an export, contain already are imported too. Raises
    `ProjectError` for conflicts and for changes that the database refuses.
    """
    merged = checked(plan, read_own(root), theirs or {})
    if merged.differing:
        say(f"different here and there, kept unchanged: {_key_list(merged.differing)}")
    for note in merged.notes:
        say(f"warning: {note}")
    if not merged.changes:
        return ()
    if not dry_run:
        say(backed_up(root))
    return _write(root, plan, dry_run=dry_run, say=say, theirs=theirs or {})


def _write(root: Path, plan: Plan, *, dry_run: bool, say: Say, theirs: Rows) -> tuple[RowEdit, ...]:
    done: list[RowEdit] = []
    masked: dict[str, None] = {}

    def work() -> None:
        take_time(database)
        own = own_of(database, root)
        merged = checked(plan, own, theirs)
        writer = EditWriter(database, own)
        database.closing(lambda _: True, lambda: writer.write(merged.changes))
        if is_recorded:
            record_reason(database, session, IMPORTED, database.closed_tasks(), TOOL)
        masked.update(writer.masked)
        done[:] = merged.changes
        if dry_run:
            raise _DryRunError

    session = f"import-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    is_recorded = read_state(root).version is not None
    with opened_database(root) as database, suppress(_DryRunError):
        if is_recorded:
            facts = {"recipe": RECIPE}
            journal = database.journal(session, facts, lambda: TOOL, ends_with_writes=True)
            database.before_writes.append(journal.begin)
        database.has_tasks = bool(ralphs_tables(root))
        database.writing(work)
        if is_recorded:
            say(f"undo: ralphgen undo {session}")
    for name in masked:
        say(f'warning: set the secrets of the MCP servers of "{plain(name)}": they are "***"')
    return tuple(done)


def take_time(database: "Database") -> None:
    """Let the open transaction take as long as it has to; Ctrl-C ends it."""
    if not database.sql.TYPED:
        # Python's signal handlers run in this handler.
        database.connection.set_progress_handler(lambda: False, STEPS)


def checked(plan: Plan, own: Own, theirs: Rows) -> MergedRows:
    """Return the plan; raise `ProjectError` for its conflicts, and for new broken references."""
    merged = plan(own)
    problems = [*merged.conflicts.values(), *_unstorable(merged, own), *_unaddable(merged, own)]
    if not problems and own.has_tasks:
        rows = after(own.rows, merged.changes)
        sides = (own.rows, theirs)
        problems = [*unreadable_lists(sides, rows), *broken_references(sides, rows, merged.awaited)]
        problems += [found] if (found := circle(sides, rows)) else []
    if problems:
        *others, last = problems
        raise ProjectError.of([*map(Problem, others), Problem(last, SETTLE)])
    return merged


def _unstorable(merged: MergedRows, own: Own) -> Iterator[str]:
    """Yield the values to write that the database cannot store."""
    for change in merged.changes if own.is_typed else ():
        for name, value in change.values.items():
            try:
                encode_value(own.tables[change.key[0]].kinds[name], name, value)
            except ValueError as error:
                yield f'{key_label(change.key)}: "{name}": {error}'


def _unaddable(merged: MergedRows, own: Own) -> Iterator[str]:
    """Yield a message for each table whose new rows would lack a required value."""
    added = dict.fromkeys(change.key[0] for change in merged.changes if change.kind == "add")
    yield from (no_rows(own.tables[name]) for name in added if own.tables[name].lacking)


def _unsaid_tables(theirs: Rows, tables: Mapping[str, MovedTable]) -> set[str]:
    """Return the project's own tables of which the other side has no row.

    The other side may lack these tables, or not name them in its settings: our rows are kept.
    """
    own = {name for name, table in tables.items() if not table.is_ralphs}
    return own - {key[0] for key in theirs}


def _without(rows: Rows, tables: Collection[str]) -> Rows:
    return {key: row for key, row in rows.items() if key[0] not in tables}


def _refused(own: Own, theirs: Rows | None = None) -> dict[Key, str]:
    """Return the rows of theirs, or our own, whose foreign keys lead nowhere, with the reason."""
    rows, before = (own.rows, None) if theirs is None else (theirs, own.rows)
    found = dangling(own, rows, {**own.rows, **rows}, before)
    return {one.key: one.text for one in found if one.is_bound}


def _dangling(merged: MergedRows, own: Own) -> Iterator[str]:
    """Yield a message for each new row that refers to a missing one without a foreign key."""
    rows, changed = after(own.rows, merged.changes), {change.key for change in merged.changes}
    yield from (one.text for one in dangling(own, rows, rows, own.rows) if one.key in changed)


def _waiting_in_vain(merged: MergedRows, rows: Rows) -> Iterator[str]:
    """Yield a message for each task with a dependency that neither side has."""
    for change in merged.changes:
        (needed,) = prerequisite_lists([change.values.get("depends_on")])
        for task in needed or () if change.key[0] == "tasks" else ():
            if ("tasks", task) not in rows:
                yield f"{key_label(change.key)} waits for missing task {task}"


def _faulty_lists(merged: MergedRows, own: Own) -> Iterator[str]:
    """Yield a message for each unreadable list of dependencies, and for tasks in a cycle."""
    rows = after(own.rows, merged.changes)
    yield from unreadable_lists((own.rows,), rows)
    if found := circle((own.rows,), rows):
        yield found


def _odd_statuses(merged: MergedRows) -> Iterator[str]:
    """Yield a message for each unknown status that the database accepts."""
    for change in merged.changes:
        status = change.values.get("status")
        if change.key[0] == "tasks" and isinstance(status, str) and status not in STATUSES:
            named = f'"{plain(status)}", expected one of {", ".join(STATUSES)}'
            yield f"the status of {key_label(change.key)} is {named}"


def _key_list(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"{', '.join(map(key_label, keys[:SHOWN]))}{more}"


def _refuse_another_file(file: Path) -> None:
    if not file.is_file():
        return
    try:
        with file.open("rb") as stream:
            beginning = stream.read(len(BEGINNING))
    except OSError as error:
        raise ProjectError(f'"{file}" cannot be read: {reason(error)}', WRITE_HINT) from error
    if beginning not in {b"", BEGINNING}:
        raise ProjectError(
            f'"{file}" exists and is not an export; not overwritten',
            "choose another file, or move this one elsewhere",
        )


def _keep_base(root: Path, text: str) -> None:
    home, paths = project_home(root), (BASE, *OLDER)
    refuse_irregular(home, paths)  # a link in a clone may lead anywhere
    before = [(home / path).read_text(encoding="utf-8") for path in paths if (home / path).exists()]
    if before[:1] != [text]:
        for path, kept in reversed([*zip(paths, [text, *before], strict=False)]):
            put(home / path, kept)
