"""The sessions of a project, the logs of a session, and the pages to undo and to start one."""

import asyncio
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import quote

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ralphgen.agents.adapters import NamedReader, find_agent
from ralphgen.agents.agent import NOTHING_USED, OutputReader, Usage
from ralphgen.board.agents import StartedProcesses, ready_tasks, start_choices
from ralphgen.board.page import BoardPlace, Draw, PageDesk, html, in_thread
from ralphgen.board.project import stream_name, tree_name
from ralphgen.board.record import (
    ChangeLine,
    RecordedSession,
    RunLine,
    change_line,
    run_line,
    session_on_record,
)
from ralphgen.board.text import (
    ActionResult,
    FieldProblem,
    fieldless,
    form_of,
    line,
    paragraph,
    query_of,
)
from ralphgen.emit.trust import hidden_in
from ralphgen.errors import ProjectError, RalphgenError, UsageError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.record import (
    SessionRecord,
    base_of,
    changes_by,
    recorded_sessions,
    runs_by,
    shown,
    without_hidden,
)
from ralphgen.ledger.tables import state_of
from ralphgen.ledger.undo import LineResult, RowResult, Undone, finish_undone, undo_session
from ralphgen.planning.model import Names
from ralphgen.project.database import open_database
from ralphgen.project.git import ask_git, begin_of_git
from ralphgen.runtime.engine.ledger import MET
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import AT_ONCE, NO_LINK
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.main_tree import home_of, repository_of
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.runtime.session import ROWS
from ralphgen.sessions.model import start_command
from ralphgen.sessions.store import (
    MARK,
    MCP_CONFIG,
    TRANSCRIPT,
    StoredSession,
    age_words,
    ask_to_stop,
    has_stopped,
    launcher_of,
    session_folder,
    stored_session,
    stored_sessions,
)

TASKS = "SELECT id, title, status FROM tasks WHERE "
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KitTools:
    """The tools that a session has of a kit."""

    kit: str
    tools: Names

    @property
    def count(self) -> int:
        """Return their number."""
        return len(self.tools)


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One session; texts are empty for missing or unreadable values.

    `task`, `feature` and `target` (a discipline) are its subject, `discipline` is its role. `age`
    is the time in seconds since the last start of one of its servers, which was `started` then, in
    UTC. `launch` is the command that starts Claude Code in it, empty if it is running, has ended,
    or has nothing left to do. `containment` says in words whether it is contained.
    """

    session_id: str
    recipe: str
    base: str
    task: str
    title: str
    feature: str
    target: str
    discipline: str
    kits: tuple[KitTools, ...]
    age: float
    age_words: str
    started: str
    running: bool
    containment: str
    launch: str


@dataclass(frozen=True, slots=True)
class _Known:
    """Data about sessions from the database: titles of tasks by id, and the ended sessions."""

    titles: Mapping[int, str]
    over: Collection[str]


def read_sessions(root: Path) -> tuple[ListedSession, ...]:
    """Return the sessions of the project in `root`, newest first.

    Titles of tasks are read without a trace; without a readable database there are none. Raises
    `ProjectError` if the folder of sessions is unreadable.
    """
    kept = stored_sessions(root)
    known = _known(root, kept)
    return tuple(_row(one, known) for one in kept)


def session_row(root: Path, kept: StoredSession) -> ListedSession:
    """Return the row of one session of the project in `root`."""
    return _row(kept, _known(root, [kept]))


def _row(kept: StoredSession, known: _Known) -> ListedSession:
    facts = kept.facts
    task = facts.get(ROWS["task"])
    config = kept.folder / MCP_CONFIG
    starts = kept.session_id not in known.over and not kept.running
    starts = starts and config.is_file() and str(config).isprintable()
    return ListedSession(
        session_id=one_line(kept.session_id),
        recipe=line(facts.get("recipe")),
        base=line(facts.get("base")),
        task=line(task),
        title=known.titles.get(task, "") if _is_id(task) else "",
        feature=line(facts.get(ROWS["feature"])),
        target=line(facts.get(ROWS["discipline"])),
        discipline=line(facts.get("discipline")),
        kits=tuple(_kits(facts.get("enabled_tools"))),
        age=kept.age,
        age_words=age_words(kept.age),
        started=f"{datetime.now(UTC) - timedelta(seconds=kept.age):%Y-%m-%dT%H:%MZ}",
        running=kept.running,
        containment=kept.containment,
        launch=start_command(config) if starts else "",
    )


def _kits(enabled: object) -> Iterator[KitTools]:
    if isinstance(enabled, dict):
        for kit, names in enabled.items():
            tools = names if isinstance(names, list) else []
            yield KitTools(line(kit), tuple(map(line, tools)))


def _is_id(task: object) -> TypeGuard[int]:
    return type(task) is int and abs(task) <= LARGEST_ID


def _known(root: Path, kept: Sequence[StoredSession]) -> _Known:
    """Return the data about these sessions; a session with a closed task counts as ended.

    Empty if the database is unreadable.
    """
    about = {one.session_id: one.facts.get(ROWS["task"]) for one in kept}
    tasks = _tasks(root, [task for task in about.values() if _is_id(task)])
    closed = {task for task, (_, status) in tasks.items() if status in MET}
    recorded = recorded_sessions(root, [*about])
    over = {one.session_id for one in recorded.values() if one.ended is not None}
    over |= {name for name, task in about.items() if _is_id(task) and task in closed}
    return _Known({task: title for task, (title, _) in tasks.items()}, over)


def _tasks(root: Path, tasks: Sequence[int]) -> dict[int, tuple[str, object]]:
    """Return title and status of the tasks that exist, by id."""
    if not tasks:
        return {}
    with suppress(RalphgenError), open_database(root) as connection:
        rows = connection.rows(TASKS + connection.sql.among("id"), (str(list(tasks)),))
        return {task: (line(title), status) for task, title, status in rows}
    return {}


PIECE = 64 * 1024  # bytes read at once
PAGE_BYTES = 1024 * 1024  # bytes of a page
COUNTED = 16 * PAGE_BYTES
LINES = 60  # lines of a page, if so many are there


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of a log, oldest first, each with its start position.

    They start at `first`; older ones precede it unless it is 0. `newest` is set if none follow.
    """

    lines: tuple[tuple[int, bytes], ...]
    first: int
    newest: bool


NOTHING = LogPage((), 0, True)


def page_of_log(path: Path, end: int | None, lines: int = LINES) -> LogPage:
    """Return the last lines of a log before the position `end` of a line; None for all.

    An incomplete line is left out, and so is one that is longer than a page. A missing file has
    none.
    """
    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return NOTHING
    try:
        size = os.fstat(file).st_size
        stop = size if end is None else max(0, min(end, size))
        text, first = b"", stop
        while first and len(text) < PAGE_BYTES and text.count(b"\n") <= lines:
            start = max(0, first - PIECE)
            text, first = os.pread(file, first - start, start) + text, start
    except OSError:
        return NOTHING
    finally:
        os.close(file)
    return _page(text, first, lines, newest=stop == size)


def count_lines(path: Path) -> int:
    """Return how many lines a log has, of a very long one those at its begin."""
    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return 0
    try:
        pieces = (os.pread(file, PAGE_BYTES, at) for at in range(0, COUNTED, PAGE_BYTES))
        return sum(piece.count(b"\n") for piece in takewhile(bool, pieces))
    except OSError:
        return 0
    finally:
        os.close(file)


def _page(text: bytes, first: int, lines: int, *, newest: bool) -> LogPage:
    begin = first
    if first:  # the first line is cut off, or its begin is not known
        cut = text.find(b"\n") + 1
        text, first = text[cut:], first + cut
    found: list[tuple[int, bytes]] = []
    at = first
    for part in text.split(b"\n")[:-1]:  # behind the last line end there is nothing, or a half line
        found.append((at, part))
        at += len(part) + 1
    kept = tuple(found[-lines:])
    return LogPage(kept, kept[0][0] if kept else begin, newest)


LONG_WORDS = 4_000  # characters of one message


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The requested part of a session's stream: before these positions in its logs.

    None is the end, where new lines appear.
    """

    words: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class SaidLine:
    """A message of an agent, or the `tool` that it calls; `at` identifies it."""

    at: int
    text: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call of a tool of the session's servers; `refusal` is empty if it was answered."""

    at: int
    time: str
    kit: str
    tool: str
    took: str
    refusal: str


@dataclass(frozen=True, slots=True)
class SessionStream:
    """Messages and calls, newest first; `older_…` are the positions that older ones precede.

    They are 0 if there are none. `at_end` is set if nothing newer is left out.
    """

    words: tuple[SaidLine, ...]
    calls: tuple[CallLine, ...]
    older_words: int
    older_calls: int
    at_end: bool


def session_stream(root: Path, folder: Path, agent: str, asked: StreamQuery) -> SessionStream:
    """Return a page of messages and calls in the session of a folder, by an agent's name."""
    said = page_of_log(folder / TRANSCRIPT, asked.words)
    called = page_of_log(folder / CALLS, asked.calls)
    words = tuple(_said(said, _reader(root, agent)))
    return SessionStream(
        words=words[::-1],
        calls=tuple(_calls(called))[::-1],
        older_words=said.first,
        older_calls=called.first,
        at_end=said.newest and called.newest,
    )


def used_so_far(root: Path, folder: Path, agent: str) -> Usage:
    """Return the turns, tokens and cost that an agent has reported until now."""
    reader = _reader(root, agent)
    for _ in _said(page_of_log(folder / TRANSCRIPT, None), reader):
        pass
    return reader.usage


def _reader(root: Path, agent: str) -> OutputReader:
    """Return the reader of an agent's output; an unknown agent is assumed to write lines."""
    with suppress(RalphgenError):
        return find_agent(agent, read_settings(root)).reader(None)
    return NamedReader()


def _said(page: LogPage, reader: OutputReader) -> Iterator[SaidLine]:
    for at, text in page.lines:
        found = reader.taken(text.decode(errors="replace"))
        if found is not None and found.texts:
            yield SaidLine(at, paragraph("\n".join(found.texts), LONG_WORDS), line(found.tool))


def _calls(page: LogPage) -> Iterator[CallLine]:
    for at, text in page.lines:
        with suppress(ValueError, RecursionError, OverflowError):
            call = json.loads(text)
            if isinstance(call, dict):
                took = call.get("ms")
                yield CallLine(
                    at=at,
                    time=line(call.get("time")),
                    kit=line(call.get("kit")),
                    tool=line(call.get("tool")),
                    took=f"{took:,.1f} ms" if isinstance(took, int | float) else "",
                    refusal="" if call.get("ok") is True else paragraph(call.get("refusal") or "?"),
                )


LONGEST_DIFF = 200_000  # bytes of a diff
FILES = 100  # that are shown, and as many new ones
LONGEST_NEW_FILE = 20_000  # bytes of a new file
PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=dirty"),  # git would start filters in them
)
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BEGIN = re.compile(r"^diff --git ", re.MULTILINE)
HUNK = re.compile(r"^@@", re.MULTILINE)
GONE = "its worktree has moved on to other work, or no longer exists"
NO_GIT = "git has no record of its files"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The diff of a file; `added` and `removed` count the displayed lines."""

    path: str
    text: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """The diff of a worktree against `base`, a short commit id; `problem` is why there is none.

    `cut` is set if a part is left out.
    """

    base: str
    files: tuple[FileDifference, ...]
    cut: bool
    problem: str = ""


def tree_diff(root: Path, tree: str | None, base: str | None) -> TreeDiff:
    """Return the diff of a session's worktree against the commit `base`.

    `tree` is the recorded worktree, None for the project's own folder; a folder that is not a
    linked worktree of the project's repository is not examined. The default base is the last
    commit.
    """
    place = root if tree is None else Path(tree)
    if tree is not None and home_of(tree) != home_of(str(root)):
        return TreeDiff("", (), cut=False, problem=GONE)
    repository = repository_of(str(place))
    if repository is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    since = base if base is not None and COMMIT.fullmatch(base) else "HEAD"
    commit = (ask_git(top, ["rev-parse", "--verify", since]) or b"").decode().strip()
    text = begin_of_git(top, ["diff", *PLAIN, commit, "--"], LONGEST_DIFF) if commit else None
    if text is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    listed = begin_of_git(top, ["ls-files", "-z", "--others", "--exclude-standard"], LONGEST_DIFF)
    new = [os.fsdecode(name) for name in (listed or b"").split(b"\0")[:-1]]  # the last may be cut
    changed = [*_files(text.decode(errors="replace"))]
    made = [_new_file(top, name) for name in new[:FILES]]
    cut = len(text) >= LONGEST_DIFF or len(changed) > FILES or len(new) > FILES
    return TreeDiff(since[:10], (*changed[:FILES], *made), cut=cut)


def merge_diff(root: Path, merged: str) -> TreeDiff:
    """Return the changes of the commit that merged a session's work into the base branch."""
    repository = repository_of(str(root))
    if repository is None or not COMMIT.fullmatch(merged):
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    text = begin_of_git(top, ["diff", *PLAIN, f"{merged}^1", merged, "--"], LONGEST_DIFF)
    if text is None:
        return TreeDiff("", (), cut=False, problem=f"git has no commit {merged[:10]}")
    changed = [*_files(text.decode(errors="replace"))]
    cut = len(text) >= LONGEST_DIFF or len(changed) > FILES
    return TreeDiff(f"{merged[:10]}^", tuple(changed[:FILES]), cut=cut)


def _files(text: str) -> Iterator[FileDifference]:
    """Yield the parts of a diff, each of one file."""
    for part in BEGIN.split(text)[1:]:
        head, _, rest = part.partition("\n")
        hunk = HUNK.search(rest)
        yield _file_diff(head.rpartition(" b/")[2] or head, rest[hunk.start() :] if hunk else rest)


def _new_file(top: Path, name: str) -> FileDifference:
    """Return an untracked file as a diff that adds every line; links are not followed."""
    try:
        file = os.open(top / name, os.O_RDONLY | AT_ONCE | NO_LINK)
        try:
            data = os.read(file, LONGEST_NEW_FILE)
        finally:
            os.close(file)
    except OSError:
        return FileDifference(line(name), "a new file that cannot be read", 0, 0)
    if b"\0" in data:
        return FileDifference(line(name), "a new binary file", 0, 0)
    lines = data.decode(errors="replace").splitlines()
    more = "\n…" if len(data) == LONGEST_NEW_FILE else ""
    return _file_diff(name, "\n".join(f"+{one}" for one in lines) + more)


def _file_diff(name: str, body: str) -> FileDifference:
    lines = without_controls(body).rstrip("\n").split("\n")
    added, removed = (sum(one[:1] == sign for one in lines) for sign in "+-")
    return FileDifference(line(name.strip('"')), "\n".join(lines), added, removed)


OVER = "the session is not running here, and its worktree may contain other work by now"
LONGEST_ID = 200  # characters of an id
CHANGES, RUNS = 100, 50
"""Of a session the newest so many are shown."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A session: `row` is its folder, `record` its entry in the ledger; one of them may be None.

    `launched` is set if the board can stop its agent, and `used` is the agent's reported usage
    until now; `calls` counts the calls of its servers.
    """

    session_id: str
    row: ListedSession | None
    record: RecordedSession | None
    launched: bool
    used: Usage
    calls: int

    @property
    def works(self) -> bool:
        """Return whether an agent or a server of the session runs on this machine."""
        return self.launched or (self.row is not None and self.row.running)

    @property
    def task(self) -> str:
        """Return its task, or an empty text."""
        if self.record is not None:
            return "" if self.record.task is None else str(self.record.task)
        return self.row.task if self.row is not None else ""


@dataclass(frozen=True, slots=True)
class SessionResults:
    """A session's changes and checks, newest first; `more` is set if there are others.

    None if the project has no ledger.
    """

    changes: tuple[ChangeLine, ...]
    runs: tuple[RunLine, ...]
    more: bool


def is_known(root: Path, session_id: str) -> bool:
    """Return whether there is a session of this id, here or on record."""
    if not session_id.isprintable() or len(session_id) > LONGEST_ID:
        return False
    return stored_session(root, session_id) is not None or _record(root, session_id) is not None


def read_session(root: Path, session_id: str, *, ours: bool) -> SessionPage | None:
    """Return a session of the project in `root`, or None if the id is unknown.

    `ours` is set if a command that this board has started watches its agent. Raises `ProjectError`
    if the database cannot be read.
    """
    stored, record = stored_session(root, session_id), _record(root, session_id)
    if stored is None and record is None:
        return None
    folder = None if stored is None else stored.folder
    launched = folder is not None and launcher_of(folder) is not None
    if ours and record is not None and record.outcome is None:
        launched = True  # though its mark is gone
    agent = record.agent or "" if record is not None else ""
    line = None
    if record is not None:
        with Project(root).task_rows() as (rows, _):
            line = session_on_record(rows, record)
    return SessionPage(
        session_id=session_id,
        row=None if stored is None else session_row(root, stored),
        record=line,
        launched=launched,
        used=used_so_far(root, folder, agent) if launched and folder else NOTHING_USED,
        calls=0 if folder is None else count_lines(folder / CALLS),
    )


def stream_values(root: Path, session_id: str, asked: StreamQuery) -> Mapping[str, object]:
    """Return the values for the section of a session's stream."""
    record = _record(root, session_id)
    agent = record.agent or "" if record is not None else ""
    folder = session_folder(root, session_id)
    if folder is None:
        raise ProjectError(
            f'the session "{session_id}" has no files on this machine',
            "open the board on the machine that ran it; it deletes old sessions",
        )
    stream = session_stream(root, folder, agent, asked)
    return {"view": stream, "kept": (folder / TRANSCRIPT).exists(), "asked": asked}


def tree_of(root: Path, session_id: str) -> TreeDiff:
    """Return the changed files: the current ones of a running session, or those of its merge.

    Worktrees of other sessions contain more than their changes by now.
    """
    record = _record(root, session_id)
    if record is not None and record.merged:
        return merge_diff(root, record.merged)
    stored = stored_session(root, session_id)
    goes_on = stored is not None and (stored.running or launcher_of(stored.folder) is not None)
    if not goes_on:
        return TreeDiff("", (), cut=False, problem=OVER)
    with open_database(root) as connection:
        known = state_of(connection).version is not None
        base = base_of(Rows(connection, {}), session_id) if known else None
    return tree_diff(root, record.worktree if record is not None else None, base)


def work_of(root: Path, session_id: str) -> SessionResults | None:
    """Return a session's changes and checks; raises `ProjectError` as `read_session` does."""
    record = _record(root, session_id)
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return None
        schema = Project(root).schema_in(connection)
        rows = Rows(connection, {})
        changes = changes_by(rows, session_id, CHANGES + 1)
        task = record.task_id if record is not None else None
        runs = [] if task is None else runs_by(rows, session_id, task, RUNS)
    return SessionResults(
        changes=tuple(change_line(one, schema.hidden) for one in changes[:CHANGES]),
        runs=tuple(map(run_line, runs)),
        more=len(changes) > CHANGES,
    )


def _record(root: Path, session_id: str) -> SessionRecord | None:
    return recorded_sessions(root, [session_id]).get(session_id)


LONGEST_VALUE = 300  # characters of a value
MOST_UNDONE = 500  # rows and lines that are shown


@dataclass(frozen=True, slots=True)
class UndoneRow:
    """The result for a row or a line: `done` in words, or why it is `left`, with both versions."""

    name: str
    done: str
    left: str
    session: str
    now: str


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """The result of an undo; `changed` counts the reverted rows, `left` the others.

    Of very many rows the first are shown, beginning with those that are left.
    """

    changed: int
    left: int
    rows: tuple[UndoneRow, ...]
    more: int


def undo_preview(root: Path, session_id: str) -> UndoPreview:
    """Return the result that an undo of a session would have; nothing is changed.

    Raises `UsageError` for a session that is not on record, and `ProjectError` if the ledger is
    unreadable.
    """
    return _preview(undo_session(root, session_id, dry_run=True), hidden_in(root))


def undo(root: Path, session_id: str) -> ActionResult:
    """Revert a session's changes after a backup; rows that were changed again since are left."""
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
    rows = [_undone_row(one, hidden) for one in found.rows]
    rows += [_line(one) for one in found.lines if not one.gone or one.left]
    rows.sort(key=lambda row: not row.left)
    left = sum(bool(row.left) for row in rows)
    return UndoPreview(
        found.changed, left, tuple(rows[:MOST_UNDONE]), max(0, len(rows) - MOST_UNDONE)
    )


def _undone_row(row: RowResult, hidden: Collection[str]) -> UndoneRow:
    key = row.key[0] if len(row.key) == 1 else row.key
    columns = f": {', '.join(row.columns)}" if row.done == "restored" else ""
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
    done = "restored" if found.put_back else "removed"
    name = line(f"{found.file}: {found.line}")
    return UndoneRow(name, "" if found.left else done, line(found.left), "", "")


def _values(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "not there"
    return paragraph(json.dumps(shown(dict(values)), ensure_ascii=False), LONGEST_VALUE)


PATIENCE = 15.0  # seconds for an agent to clean up and to release its task
LOOK = 0.1  # seconds between checks for its end
PUT_BACK = "a running agent creates it again"
NOBODY = "no agent works in it without a terminal"


def stop_agent(root: Path, session_id: str, started: StartedProcesses) -> ActionResult:
    """Stop the agent of a session and release its task; its record is kept.

    If the session's mark is missing, the process that watches the agent is ended, if this board
    started it.
    """
    stored = stored_session(root, session_id)
    if stored is not None and ask_to_stop(stored.folder):
        over = has_stopped(stored.folder, PATIENCE) and _is_over(session_id, started)
    elif started.end(session_id):
        over = _is_over(session_id, started)
    else:
        text = NOBODY if stored is not None else f'there is no session "{one_line(session_id)}"'
        problem = FieldProblem("", text, "end it where it was started")
        return ActionResult(False, "nothing was stopped", (), (problem,))
    if over:
        return ActionResult(True, "the agent has ended, and its task is released")
    late = "the agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    mark = stored.folder / MARK
    return ActionResult(True, late, (f'if it does not end, remove "{mark}": {PUT_BACK}',))


def _is_over(session_id: str, started: StartedProcesses) -> bool:
    end = time.monotonic() + PATIENCE
    while started.runs(session_id) and time.monotonic() < end:
        time.sleep(LOOK)
    return not started.runs(session_id)


NEW_SESSION = "/sessions/new"
ACTIONS = ("end", "start", "stop", "undo")
"""What is sent to an address below that of sessions, and names none."""
TYPED = ("task", "recipe", "discipline", "agent")
PARTS = {
    "session": "session_session.html.jinja",
    "stream": "session_stream.html.jinja",
    "tree": "session_tree.html.jinja",
    "work": "session_work.html.jinja",
}
"""The sections of a session's page, in order, each with its template."""


def session_area(desk: PageDesk, started: StartedProcesses) -> Sequence[Route]:
    """Return the routes of sessions."""
    pages = SessionPages(desk, started)
    return [
        Route("/sessions/start", pages.start, methods=["POST"]),
        Route("/sessions/stop", pages.stop, methods=["POST"]),
        Route("/sessions/undo", pages.undo, methods=["POST"]),
        Route(NEW_SESSION, pages.new, methods=["GET"]),
        Route("/sessions/{session_id}", pages.page, methods=["GET"]),
        Route("/sessions/{session_id}/undo", pages.preview, methods=["GET"]),
        Route("/sessions/{session_id}/parts/{part}", pages.part, methods=["GET"]),
    ]


class SessionPages:
    """The responses at the addresses of sessions."""

    def __init__(self, desk: PageDesk, started: StartedProcesses) -> None:
        """Draw at the desk."""
        self._desk = desk
        self._root = desk.board.root
        self._started = started

    async def page(self, request: Request) -> Response:
        """Show a session: its subject, its stream, its files, and its changes."""
        session_id = await self._named(request)
        query = query_of(request)
        asked = StreamQuery(_place(query.get("words")), _place(query.get("calls")))
        place = BoardPlace(_address(session_id), f"Session {session_id}")
        parts = self._parts(session_id, asked)
        return await self._desk.page(place, parts, (session_id, asked), query.get("notice", ""))

    async def part(self, request: Request) -> Response:
        """Show one section of a session's page."""
        session_id, name = await self._named(request), request.path_params["part"]
        query = query_of(request)
        asked = StreamQuery(_place(query.get("words")), _place(query.get("calls")))
        parts = self._parts(session_id, asked)
        if name not in parts:
            raise HTTPException(404)
        drawn = self._desk.drawn(name, (session_id, asked), parts[name])
        return HTMLResponse(await asyncio.shield(drawn))

    async def preview(self, request: Request) -> Response:
        """Show what would come of the undo of a session."""
        session_id = await self._named(request)
        place = BoardPlace(f"{_address(session_id)}/undo", f"Undo {session_id}")

        def draw() -> Markup:
            view = undo_preview(self._root, session_id)
            return html("session_undo.html.jinja", session_id=session_id, view=view)

        notice = query_of(request).get("notice", "")
        return await self._desk.page(place, {"undo": draw}, session_id, notice)

    async def new(self, request: Request) -> Response:
        """Show the form that starts an agent."""
        query = query_of(request)
        typed = {name: query.get(name, "") for name in TYPED}

        def draw() -> Markup:
            choices = start_choices(self._root, typed["task"])
            ready = ready_tasks(self._root)
            return html("session_start.html.jinja", choices=choices, typed=typed, ready=ready)

        place = BoardPlace(NEW_SESSION, "Start an agent")
        asked = tuple(typed.values())
        return await self._desk.page(place, {"start": draw}, asked, query.get("notice", ""))

    async def start(self, request: Request) -> Response:
        """Start an agent; if that fails, keep the chosen values."""
        form = await form_of(request)
        started = await in_thread(partial(self._started.launch, form))
        if started.begun:
            address = f"{_address(started.begun)}#session"
            return self._desk.answered(request, started.outcome, address)
        if started.outcome.ok:
            return self._desk.answered(request, started.outcome, "/sessions#sessions")
        typed = [(name, form.text(name)) for name in TYPED]
        return self._desk.answered(request, started.outcome, f"{NEW_SESSION}#start", typed)

    async def stop(self, request: Request) -> Response:
        """End the agent of a session."""
        session_id = (await form_of(request)).text("session")
        outcome = await in_thread(partial(stop_agent, self._root, session_id, self._started))
        return self._desk.answered(request, outcome, f"{_address(session_id)}#session")

    async def undo(self, request: Request) -> Response:
        """Undo a session's changes."""
        session_id = (await form_of(request)).text("session")
        outcome = await in_thread(partial(undo, self._root, session_id))
        return self._desk.answered(request, outcome, f"{_address(session_id)}/undo#undo")

    async def _named(self, request: Request) -> str:
        """Return the id in the address, of a session that there is."""
        session_id: str = request.path_params["session_id"]
        if session_id in ACTIONS:
            raise HTTPException(405)
        if not await in_thread(partial(is_known, self._root, session_id)):
            raise HTTPException(404, "there is no such session")
        await in_thread(partial(self._desk.board.follow, session_id))
        return session_id

    def _parts(self, session_id: str, asked: StreamQuery) -> Mapping[str, Draw]:
        def values(name: str) -> Mapping[str, object]:
            if name == "stream":
                return stream_values(self._root, session_id, asked)
            if name == "session":
                found = read_session(self._root, session_id, ours=self._started.runs(session_id))
                return {"view": found, "said": self._started.said(session_id)}
            read = tree_of if name == "tree" else work_of
            return {"view": read(self._root, session_id)}

        def drawing(name: str, heeds: str) -> Draw:
            at = f"{_address(session_id)}/parts/{name}"
            facts = {"session_id": session_id, "heeds": heeds, "at": at}
            return lambda: html(PARTS[name], **facts, **values(name))

        stream = stream_name(session_id)
        heeded = {
            "session": f"{stream} sessions record",
            "stream": stream,
            "tree": tree_name(session_id),
            "work": "record",
        }
        return {name: drawing(name, heeds) for name, heeds in heeded.items()}


def _address(session_id: str) -> str:
    return f"/sessions/{quote(session_id, safe='', errors='surrogateescape')}"


def _place(text: str | None) -> int | None:
    """Return a place in a log; None for its end, and where the text is none."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,15}", text) else None
