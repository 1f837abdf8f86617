"""Finds changes in the project of a board, and announces them to open pages."""

import asyncio
import json
import logging
import re
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Event, Lock, RLock, Thread, Timer
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ralphgen.board.text import line, query_of
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.files import MANIFEST, SETTLED, manifest_entries
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import LEARNINGS, PROGRESS, Rows, reading_rows
from ralphgen.kits.registry import read_settings
from ralphgen.kits.specum import spec_files
from ralphgen.ledger.record import RecordReader
from ralphgen.ledger.tables import state_of
from ralphgen.loop.record import StoredLoop, stored_loops
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import kit_settings
from ralphgen.project.database import (
    FileSnapshot,
    LockedError,
    Snapshot,
    connected_database,
    open_database,
    open_without_trace,
)
from ralphgen.project.model import Schema
from ralphgen.project.root import (
    DATABASE,
    FOLDER,
    RECIPES,
    database_path,
    database_place,
    project_home,
    sessions_folder,
)
from ralphgen.project.schema import column_names, open_rows, relation_names
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.runtime.session import LOCK
from ralphgen.runtime.tasks.claims import COLUMNS, Claim, claims, is_live
from ralphgen.sessions.end import Lock as SessionLock
from ralphgen.sessions.store import CONTEXT, TRANSCRIPT, launcher_of, session_folder

MOST = 5_000
"""Claims to check, the ones with the latest leases: each may look up a process."""


def read_claims(reader: RecordReader) -> dict[int, Claim]:
    """Return the unreleased claims, by task; none if the database does not keep such claims."""
    names = column_names(reader.connection, "ralphgen_claims")
    return claims(reader.connection, MOST) if {*COLUMNS.split(", ")} <= {*names} else {}


LOOPS, SPECUM = "loop", "specum"
PACE = 2.0
"""Seconds between two checks of many files, and of a database server that sent no notice."""
MOST_FOLLOWED = 64  # sessions
SCHEMA = "SELECT name, sql FROM sqlite_master"
DISCIPLINES = "SELECT * FROM disciplines"
SNAPSHOT = "SELECT pg_catalog.pg_current_snapshot()::text"
"""A value that differs after any write in the database cluster."""


def stream_name(session_id: str) -> str:
    """Return the name that announces a change of a session's stream; ids have any characters."""
    return f"stream-{sha256(session_id.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def tree_name(session_id: str) -> str:
    """Return the name that announces changes at most every few seconds, for expensive sections."""
    return stream_name(session_id).replace("stream", "tree")


UNTITLED = "Project"
SOON = 0.5  # seconds before an expensive fact is read, so that pages come first
Value = TypeVar("Value")


class Board:
    """The state of the board of the project in `root`; every method may be called in any thread.

    Hold `acting` while you write the server or the project. `session` is the user's session,
    `findings` are those of the last diagnosis, and `is_checking` returns whether checks run for a
    task.

    Changes are found by times, sizes and identities of files: a connection with its `data_version`
    would keep the last writer from removing `-wal`, and lose its locks whenever this process reads
    the database without a trace.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.session = f"board-{moment}-{secrets.token_hex(4)}"
        self.acting = Lock()
        self.findings: Sequence[object] | None = None
        self.is_checking: Callable[[int], bool] = lambda _task: False
        self._clock = clock
        self._noting = RLock()
        self._next = float("-inf")
        self._has_notice = False
        self._marks: dict[str, object] = {}  # by section
        self._followed: dict[str, Path] = {}
        self._loops: Sequence[StoredLoop] = ()
        self._files: tuple[object, object] = (), ()  # of the generated ones, and of specs
        self._sessions: dict[str, tuple[object, object, bool]] = {}
        self._database: tuple[object, object, Sequence[Claim]] = ("", "", ())
        self._live: Sequence[bool] = ()
        self._changes: Mapping[str, int] = {}  # the number of the last one, by section
        self._reading: dict[tuple[str, object], Lock] = {}
        self._kept: dict[tuple[str, object], tuple[int, Any]] = {}
        self._coming: set[tuple[str, object]] = set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within the block, detect our own writes to a database server at the next check."""
        over = Event()
        if not isinstance(self._place(), Path):
            Thread(target=self._listen, args=[over], daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _listen(self, over: Event) -> None:
        with suppress(RalphgenError), connected_database(self.root) as database:
            notices = database.notices()
            if notices is not None:
                with closing(notices):
                    while not over.is_set():
                        self._has_notice = notices.wait(PACE) or self._has_notice

    def follow(self, session_id: str) -> None:
        """Announce new events of a session from now on; limited to the latest sessions."""
        folder = session_folder(self.root, session_id)
        if folder is None:
            return
        with self._noting:
            if self._followed.pop(session_id, None) is None:
                names = stream_name(session_id), tree_name(session_id)
                self._marks |= dict.fromkeys(names, _stream(folder))
            self._followed[session_id] = folder
            if len(self._followed) > MOST_FOLLOWED:
                del self._followed[next(iter(self._followed))]

    def check(self, *, fully: bool = False) -> tuple[str, ...]:
        """Note and return the sections that changed since the last check, none at the first.

        Without `fully`, a database server is asked every few seconds, or after its notice.
        """
        with self._noting:
            known, self._marks = self._marks, self._look(fully=fully)
            marks = self._marks.items()
            found = tuple(name for name, mark in marks if name in known and known[name] != mark)
            self.note(*found)
            return found

    def note(self, *sections: str) -> None:
        """Count a change of these sections."""
        with self._noting:
            number = 1 + max(self._changes.values(), default=1)
            self._changes = {**self._changes, **dict.fromkeys(sections, number)}

    def changed_since(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of the last change, and the sections changed after `number`."""
        changes = self._changes
        latest = max(changes.values(), default=1)
        return latest, tuple(name for name, last in changes.items() if last > number)

    def cached(self, section: str, read: Callable[[Path], Value]) -> Value:
        """Return the result of `read`, called once per change of the sections (with spaces)."""
        key = (section, read.__qualname__)
        with self._reading.setdefault(key, Lock()):
            number = self._last(section)
            if key not in self._kept or self._kept[key][0] != number:
                self._kept[key] = number, read(self.root)
            value: Value = self._kept[key][1]
            return value

    def soon(self, section: str, read: Callable[[Path], Value], announce: str) -> Value | None:
        """Return the last result of `read`, or None; a thread renews and announces it."""
        key = (section, read.__qualname__)
        known = self._kept.get(key)

        def read_later() -> None:
            self._coming.discard(key)
            value = self.cached(section, read)
            if known is None or known[1] != value:
                self.note(announce)

        with self._noting:
            is_new = known is not None and known[0] == self._last(section)
            if not is_new and key not in self._coming:
                self._coming.add(key)
                reading = Timer(SOON, read_later)
                reading.daemon = True
                reading.start()
        return None if known is None else known[1]

    def _last(self, sections: str) -> int:
        return max(self._changes.get(one, 0) for one in sections.split())

    def _look(self, *, fully: bool) -> dict[str, object]:
        """Return the marks as of now; they differ after any write that a section could show."""
        folder, slowly = self.root / FOLDER, self._clock() >= self._next
        if slowly:
            self._next = self._clock() + PACE
            self._loops = stored_loops(self.root)
            files, specum = _generated_files(folder), specum_settings(self.root)
            of_specs = spec_files(self.root, specum) if specum else ()
            self._files = [*map(_stamp, files)], [*map(_stamp, of_specs)]
            self._look_at_sessions()
        before = self._database
        self._look_at_database(asks=slowly or fully or self._has_notice)
        database, facts, taken = self._database
        if slowly or database != before[0]:
            self._live = [*map(is_live, taken)]
        generated, specs = self._files
        recipes = [(one.name, _stamp(one)) for one in _entries(self.root / RECIPES)]
        settings = (facts, _stamp(self.root / CONFIG), recipes)
        ralph = project_home(self.root) / ".ralph"
        notes = _stamp(ralph / PROGRESS), _stamp(ralph / LEARNINGS)
        drift = (settings, _stamp(folder / MANIFEST), _stamp(folder), generated)
        marks: dict[str, object] = {
            "status": (database, settings, notes, self._live),
            "matrix": settings,
            "drift": drift,
            "record": (database, settings),
            "attention": (database, drift),
            "sessions": (database, _stamp(sessions_folder(self.root)), self._sessions),
            "specs": (settings, specs),
            LOOPS: [(one.path, one.running, _stamp(one.path)) for one in self._loops],
        }
        for one, logs in self._followed.items():
            stream, tree = stream_name(one), tree_name(one)
            marks[stream] = _stream(logs)
            marks[tree] = marks[stream] if slowly else self._marks[tree]
        return marks

    def _place(self) -> object:
        """Return the path of the database, or its place on a server."""
        try:
            return database_place(self.root) or database_path(self.root)
        except RalphgenError:  # reported when rows are read
            return project_home(self.root) / DATABASE

    def _look_at_database(self, *, asks: bool) -> None:
        """Read the schema, the disciplines and the claims again if the database has changed."""
        place, known = self._place(), self._database
        state = _file_state(place) if isinstance(place, Path) else None
        try:
            if isinstance(place, Path):
                if state != known[0]:
                    with open_without_trace(place, patience=0) as file:
                        connection = FileSnapshot(file)
                        self._database = state, *_facts(connection, connection.rows(SCHEMA))
            elif asks:  # no file shows a write
                self._has_notice = False  # before the check: a write during it is announced again
                with open_database(self.root) as server:
                    ((number,),) = server.rows(SNAPSHOT)
                    if number != known[0]:
                        schema = server.tables(relation_names(server))
                        self._database = number, *_facts(server, schema)
        except LockedError:
            self._database = (state, "locked"), *known[1:]  # no later state: it is read again
        except (RalphgenError, sqlite3.Error) as error:  # reported by other readers
            self._database = state or str(error), state or "", ()

    def _look_at_sessions(self) -> None:
        """Note when a server was last started in each session, and whether one runs.

        A start changes the time of a lock: otherwise only those are opened that were held before.
        """
        before, self._sessions = self._sessions, {}
        for folder in _entries(sessions_folder(self.root)):
            context, lock = _stamp(folder / CONTEXT), _stamp(folder / LOCK)
            is_held = before.get(folder.name, ())[1:] != (lock, False)
            if is_held:
                with SessionLock(folder) as held:
                    is_held = held.is_held()
            self._sessions[folder.name] = context, lock, is_held


def specum_settings(root: Path) -> Mapping[str, Any] | None:
    """Return the settings of the kit specum; None if it is off or the config cannot be read."""
    try:
        config = read_settings(root)
    except ProjectError:
        return None
    return kit_settings(config, SPECUM) if SPECUM in config.kits else None


def _file_state(path: Path) -> object:
    """Return the state of a database in a file, by the file and its log."""
    log = _stamp(path.with_name(f"{path.name}-wal"))
    # Opening the database creates an empty log, and the last process to close it removes it.
    return _stamp(path), log if log[1:2] != (0,) else None


def _facts(connection: Snapshot, schema: object) -> tuple[object, Sequence[Claim]]:
    """Return what servers are made from, and the claims; tables alone have no disciplines."""
    known = column_names(connection, "disciplines")
    disciplines = connection.rows(DISCIPLINES) if known else ()
    return (schema, disciplines), [*read_claims(Rows(connection, {})).values()]


def _generated_files(folder: Path) -> Iterator[Path]:
    """Yield the files that the manifest lists, and their folders."""
    with suppress(OSError):
        paths = manifest_entries(folder) or {}
        for path in {*paths, *(str(PurePosixPath(path).parent) for path in paths)}:
            yield folder / path


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _stream(folder: Path) -> object:
    """Return the state of a session's logs, and the process that watches its agent."""
    return _stamp(folder / TRANSCRIPT), _stamp(folder / CALLS), launcher_of(folder)


def _stamp(path: Path) -> tuple[object, ...]:
    """Return the identity of a file's state, and whether a later write would change it."""
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno,)
    # Two quick writes can have the same time, so a file counts once more when it has settled.
    settled = time.time() - found.st_mtime > SETTLED
    # No st_ctime: root sets that of the log of a database by reading it.
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, settled


@contextmanager
def reading(root: Path) -> Iterator[tuple[Rows, Schema]]:
    """Read a project at one moment: its tasks and ledger, or of tables alone only the ledger."""
    project = Project(root)
    with open_database(root) as connection:
        schema = project.schema_in(connection)
        if project.serves_any_database:
            yield Rows(connection, {}, state_of(connection).version is not None), schema
        else:
            yield reading_rows(connection, schema), schema


def names_in(rows: Rows, table: str) -> dict[str, str]:
    """Return the names of features or disciplines in order, with their display names."""
    if rows.lacks(table, "name"):
        return {}
    title = rows.available_columns(table, "display_name") or ["name"]
    read = rows.read(table, ["name", *title], "ORDER BY name")
    return {str(name): line(shown).strip() or line(name) for name, shown in read}


def project_title(root: Path, other: str = UNTITLED) -> str:
    """Return the title of a project, or `other` if it has tables alone."""
    if has_tables_alone(root):
        return line(other)
    with open_rows(root) as rows:
        title, _ = rows.identity()
    return line(title or UNTITLED)


def has_tables_alone(root: Path) -> bool:
    """Return whether the config of a project has no tasks, features and disciplines."""
    try:
        return Project(root).serves_any_database
    except ProjectError:  # sections that need the config show the problem
        return False


INTERVAL = 0.25  # seconds between checks, while a stream is open
GLANCE = 0.1  # seconds until a stream finds what a check has found
BEAT = 15.0  # seconds between signs of life in a silent stream


class Events:
    """The open streams, which share one check of the project every quarter of a second."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._open = 0
        self._checking: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End every stream."""
        if self._checking is not None:
            self._checking.cancel()

    async def answer(self, request: Request) -> Response:
        """Return a stream; it ends when its client leaves or reads nothing, or the board ends."""
        kind = "text/event-stream"
        if request.method == "HEAD":
            return Response(media_type=kind)
        seen = request.headers.get("last-event-id") or query_of(request).get("since", "")
        number = int(seen) if re.fullmatch("[0-9]{1,15}", seen) else 0
        return StreamingResponse(self._stream(number), media_type=kind)

    async def _stream(self, seen: int) -> AsyncIterator[str]:
        """Yield the changes after `seen`, until checks end; after a failure, pages reconnect."""
        self._open += 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
            self._checking.add_done_callback(_report_failure)
        checking, beat = self._checking, time.monotonic() + BEAT
        try:
            yield ": begin\n\n"
            while not checking.done():
                number, sections = self._board.changed_since(seen)
                if sections:
                    seen, data = number, json.dumps({"sections": sections})
                    yield f"id: {number}\nevent: changed\ndata: {data}\n\n"
                elif time.monotonic() >= beat:
                    yield ": beat\n\n"
                else:
                    await asyncio.wait([checking], timeout=GLANCE)
                    continue
                beat = time.monotonic() + BEAT
        finally:
            self._open -= 1

    async def _check(self) -> None:
        with self._board.listening():
            while self._open:
                await asyncio.sleep(INTERVAL)
                await in_thread(self._board.check)


def _report_failure(checking: asyncio.Task[None]) -> None:
    if not checking.cancelled() and (error := checking.exception()) is not None:
        logging.getLogger("asyncio").error("the board cannot look for changes", exc_info=error)


async def in_thread(work: Callable[[], Value]) -> Value:
    """Return or raise the result of `work`, which continues if no request waits for it any more."""
    return await asyncio.wrap_future(start_in_thread(work))


def start_in_thread(work: Callable[[], Value]) -> "Future[Value]":
    """Start `work` in a thread that ends with the process, unlike a pool's; return its future."""
    future: Future[Value] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
