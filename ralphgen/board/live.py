"""Finds what has changed in the project of a board, and announces it to open pages."""

import asyncio
import json
import os
import re
import secrets
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Event, Lock, Thread, Timer
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ralphgen.board.text import line, query_of
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.files import MANIFEST, SETTLED, listed
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import LEARNINGS, PROGRESS, Rows
from ralphgen.kits.registry import read_settings
from ralphgen.kits.specum.progress import spec_files
from ralphgen.ledger.record import RecordReader
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
from ralphgen.project.root import (
    DATABASE,
    FOLDER,
    RECIPES,
    DatabasePlace,
    database_path,
    database_place,
    project_home,
    sessions_folder,
)
from ralphgen.project.schema import column_names, open_rows, relation_names
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.runtime.session import LOCK
from ralphgen.runtime.tasks.claims import COLUMNS, Claim, claims, is_live, is_over
from ralphgen.sessions.end import Lock as SessionLock
from ralphgen.sessions.store import CONTEXT, TRANSCRIPT, launcher_of, session_folder

MOST = 5_000
"""Claims to check, the ones with the latest leases: each may look up a process."""
FRACTION = re.compile(r"\.[0-9]{1,6}Z$")


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim that was not released: the task's last holder, `since` when and `until` when.

    `live` is whether it holds the task now, and `begun` whether it has set the task in_progress.
    """

    session: str
    since: str
    until: str
    live: bool
    begun: bool


def keeps_claims(connection: Snapshot) -> bool:
    """Return whether the database has the table of claims, as this version writes it."""
    return {*column_names(connection, "ralphgen_claims")}.issuperset(COLUMNS.split(", "))


def read_claims(reader: RecordReader) -> dict[int, Claim]:
    """Return the unreleased claims, by task; none if the database keeps no claims."""
    return claims(reader.connection, MOST) if keeps_claims(reader.connection) else {}


def holds_of(found: Mapping[int, Claim], *, anywhere: bool) -> dict[int, Hold]:
    """Return the current state of claims, by task.

    `anywhere` judges by the leases alone, which give the same result on every machine.
    """
    return {
        task: Hold(
            session=line(claim.session),
            since=_to_the_second(claim.taken),
            until=_to_the_second(claim.expires),
            live=not is_over(claim) if anywhere else is_live(claim),
            begun=claim.began is not None,
        )
        for task, claim in found.items()
    }


def _to_the_second(stored: str | None) -> str:
    """Return a moment without the milliseconds that claims count."""
    return FRACTION.sub("Z", line(stored))


def liveness(found: Iterable[Claim]) -> tuple[bool, ...]:
    """Return which of some claims hold their tasks now."""
    return tuple(map(is_live, found))


LOG_PACE = 2.0
"""Seconds between two checks for loops and for quiet sessions."""
MOST_FOLLOWED = 64
"""Watched sessions, at most."""
RECENT = 60.0
"""Seconds after its last message during which each check covers a session."""
LOOPS = "loop"
Stamps = tuple[tuple[int, int] | None, ...]
"""Time and size of each log of a session, and who watches its agent."""


class StreamWatch:
    """Watches the logs of loops, and of the displayed sessions, by their times and sizes.

    Growing logs are checked every time, the others every few seconds. The number of sessions does
    not matter. `clock` counts seconds. Every method may be called in any thread.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the project in `root`."""
        self._root = root
        self._clock = clock
        self._looking = Lock()
        self._next = float("-inf")
        self._known: dict[str, object] = {}
        self._followed: OrderedDict[str, None] = OrderedDict()
        self._busy: tuple[str, ...] = ()
        self._loops: tuple[StoredLoop, ...] = ()

    def follow(self, session_id: str) -> None:
        """Watch a session from now on; the number of watched sessions is limited to the latest."""
        with self._looking:
            if session_id not in self._followed:
                self._known |= _named({session_id: self._stamp(session_id)})
            self._followed[session_id] = None
            self._followed.move_to_end(session_id)
            if len(self._followed) > MOST_FOLLOWED:
                self._followed.popitem(last=False)

    def changed(self) -> tuple[str, ...]:
        """Return the names of the changed streams since the last call, none at the first.

        For a session these are its `stream_name`, and with every slow check its `tree_name`.
        """
        with self._looking:
            known = self._known
            if self._clock() >= self._next:
                self._next = self._clock() + LOG_PACE
                stamps = {one: self._stamp(one) for one in self._followed}
                self._busy = tuple(_recent(stamps))
                self._loops = tuple(stored_loops(self._root))
                self._known = _named(stamps)
            else:
                streams = {stream_name(one): self._stamp(one) for one in self._busy}
                self._known = {**known, **streams}
            self._known[LOOPS] = [
                (one.path, one.running, _log_stamp(one.path)) for one in self._loops
            ]
            found = self._known.items()
            return tuple(name for name, now in found if name in known and known[name] != now)

    def _stamp(self, session_id: str) -> Stamps:
        folder = session_folder(self._root, session_id)
        if folder is None:
            return (None, None, (0, 0))
        logs = tuple(_log_stamp(folder / name) for name in (TRANSCRIPT, CALLS))
        return (*logs, (launcher_of(folder) or 0, 0))


def _named(stamps: Mapping[str, Stamps]) -> dict[str, object]:
    """Return the stamps of sessions by the names that announce their changes."""
    streams = {stream_name(one): stamp for one, stamp in stamps.items()}
    return {**streams, **{tree_name(one): stamp for one, stamp in stamps.items()}}


def _recent(stamps: Mapping[str, Stamps]) -> Iterator[str]:
    """Yield the sessions whose logs have grown recently."""
    now = time.time()
    for session_id, (*logs, _) in stamps.items():
        if any(now - log[0] / 1e9 < RECENT for log in logs if log is not None):
            yield session_id


def stream_name(session_id: str) -> str:
    """Return the name that announces a change of a session's stream."""
    return f"stream-{_short(session_id)}"


def tree_name(session_id: str) -> str:
    """Return the name that announces changes at most every few seconds, for expensive sections."""
    return f"tree-{_short(session_id)}"


def _short(session_id: str) -> str:
    """Return a short form of an id, which may contain any character, for names of elements."""
    return sha256(session_id.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _log_stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


PACE = 2.0
"""Seconds between two checks of many files: generated ones, and the locks of sessions."""

SPECUM = "specum"
SCHEMA = "SELECT name, sql FROM sqlite_master"
DISCIPLINES = "SELECT * FROM disciplines"
"""Rows that users edit, besides the schema."""
SNAPSHOT = "SELECT pg_catalog.pg_current_snapshot()::text"
"""A value that differs after any write in the database cluster."""


class Marks(NamedTuple):
    """A mark for each section; a section with a changed mark must be redrawn.

    Another process computes the same marks for the same state, except for files just written.
    """

    status: str
    matrix: str
    drift: str
    record: str
    sessions: str
    specs: str


class ChangeWatch:
    """Watches everything that a project's board shows, by times, sizes and identities of files.

    No file is kept open and no lock is held. A connection with its `data_version` would detect as
    much, but it would keep the last writer from removing `-wal`, and would lose its locks whenever
    another part of this process reads the database without a trace. The time of a file does not
    distinguish two writes in quick succession, so a file counts as changed once more when it has
    settled. `clock` counts seconds.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the project in `root`, which need not be complete."""
        self._root = root
        self._clock = clock
        self._next = float("-inf")
        self._generated: tuple[object, ...] = ()
        self._sessions: tuple[object, ...] = ()
        self._locks: dict[str, tuple[object, bool]] = {}
        self._specs: tuple[object, ...] = ()
        self._listed: tuple[object, tuple[str, ...]] = (None, ())
        self._known: tuple[object, str, tuple[Claim, ...]] = ("", "", ())
        self._locked = False
        self._live: tuple[bool, ...] = ()
        self._told = False  # that something was written into the server, since the last look

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within the block, detect our own writes to a database server at the next check.

        Does nothing without a server, or if it passes on no notices: then a check within `PACE`
        seconds detects the write, as it detects writes of others.
        """
        if self._place() is None:
            yield
            return
        over = Event()
        Thread(target=self._listen, args=[over], daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def marks(self, *, fully: bool = False) -> Marks:
        """Return the marks as of now; they differ after any write that a section could show.

        Without `fully`, a database server is asked every few seconds, or after its notice.
        """
        slowly = self._clock() >= self._next
        if slowly:
            self._next = self._clock() + PACE
            self._generated = tuple(self._generated_files())
            self._sessions = tuple(self._started_sessions())
            specum = specum_settings(self._root)
            specs = spec_files(self._root, specum) if specum is not None else ()
            self._specs = tuple(map(_stamp, specs))
        before, place = self._known, self._place()
        if place is None:
            self._look_at_file()
        elif slowly or fully or self._told:
            self._told = False  # before the check: a write during it is announced again
            self._look_into()
        database, facts, claims = self._known
        if slowly or self._known is not before:
            self._live = liveness(claims)
        recipes = [(entry.name, _stamp(entry)) for entry in _entries(self._root / RECIPES)]
        settings = (facts, self._stamp(CONFIG), *recipes)
        home = project_home(self._root)
        notes = [_stamp(home / ".ralph" / name) for name in (PROGRESS, LEARNINGS)]
        manifest = (self._stamp(f"{FOLDER}/{MANIFEST}"), self._stamp(FOLDER))
        return Marks(
            status=_mark(database, settings, notes, self._live),
            matrix=_mark(settings),
            drift=_mark(settings, manifest, self._generated),
            record=_mark(database, settings),
            sessions=_mark(database, _stamp(sessions_folder(self._root)), self._sessions),
            specs=_mark(settings, self._specs),
        )

    def _listen(self, over: Event) -> None:
        with suppress(RalphgenError), connected_database(self._root) as database:
            notices = database.notices()
            if notices is not None:
                with closing(notices):
                    while not over.is_set():
                        self._told = notices.wait(PACE) or self._told

    def _stamp(self, path: str) -> object:
        return _stamp(self._root / path)

    def _place(self) -> DatabasePlace | None:
        try:
            return database_place(self._root)
        except RalphgenError:
            return None

    def _database(self) -> Path:
        try:
            return database_path(self._root)
        except RalphgenError:  # reported when rows are read
            return project_home(self._root) / DATABASE

    @staticmethod
    def _log(path: Path) -> object:
        """Return the stamp of a write-ahead log; an empty one counts as a missing one.

        Opening the database creates a log, and the last process to close it removes it.
        """
        try:
            empty = not path.stat().st_size
        except OSError:
            return None
        return None if empty else _stamp(path)

    def _look_at_file(self) -> None:
        """Update the mark of the schema and the disciplines, and the claims on tasks.

        They are read again when the file has changed, and retried at the next check if it is
        locked. Agents rarely write the former.
        """
        path = self._database()
        database = (_stamp(path), self._log(path.with_name(f"{path.name}-wal")))
        if self._locked or database != self._known[0]:
            known, claims = _mark(database), tuple[Claim, ...]()
            self._locked = False
            try:
                with open_without_trace(path, patience=0) as file:
                    connection = FileSnapshot(file)
                    file.text_factory = bytes
                    schema = connection.rows(SCHEMA)
                    known = _mark(schema, _disciplines(connection))
                    file.text_factory = str
                    claims = tuple(read_claims(Rows(connection, {})).values())
            except LockedError:
                self._locked, (_, known, claims) = True, self._known
            except (RalphgenError, sqlite3.Error):
                pass  # reported by other readers
            self._known = database, known, claims

    def _look_into(self) -> None:
        """Update the same for a database on a server, where no file shows a write."""
        try:
            with open_database(self._root) as connection:
                ((moved,),) = connection.rows(SNAPSHOT)
                if moved != self._known[0]:
                    schema = connection.tables(relation_names(connection))
                    facts = _mark(schema, _disciplines(connection))
                    self._known = moved, facts, tuple(read_claims(Rows(connection, {})).values())
        except RalphgenError as error:
            self._known = str(error), "", ()

    def _generated_files(self) -> Iterator[object]:
        """Yield the files that the manifest lists, and the folders that they are in."""
        folder = self._root / FOLDER
        manifest = _stamp(folder / MANIFEST)
        if manifest != self._listed[0]:
            self._listed = manifest, _listed_paths(folder)
        for path in self._listed[1]:
            yield _stamp(folder / path)

    def _started_sessions(self) -> Iterator[object]:
        """Yield the sessions: when a server was last started in each, and whether one runs.

        A server that starts changes the time of its lock: of the others only those are opened that
        were held at the last look.
        """
        before, self._locks = self._locks, {}
        folder = sessions_folder(self._root)
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError:
            return
        for name in names:
            stamp = _stamp(f"{folder}/{name}/{LOCK}")
            held = before.get(name) != (stamp, False)
            if held:
                with SessionLock(folder / name) as lock:
                    held = lock.is_held()
            self._locks[name] = stamp, held
            yield name, _stamp(f"{folder}/{name}/{CONTEXT}"), stamp, held


def specum_settings(root: Path) -> Mapping[str, Any] | None:
    """Return the settings of the kit specum; None if it is off or the config cannot be read."""
    try:
        config = read_settings(root)
    except ProjectError:
        return None
    return kit_settings(config, SPECUM) if SPECUM in config.kits else None


def _disciplines(connection: Snapshot) -> Sequence[object]:
    """Return the disciplines; a project of other tables alone need not have any."""
    if not column_names(connection, "disciplines"):
        return ()
    return connection.rows(DISCIPLINES)


def _listed_paths(folder: Path) -> tuple[str, ...]:
    """Return the generated files and their folders; none if the manifest is unreadable."""
    try:
        paths = listed(folder) or {}
    except OSError:
        return ()
    return tuple(sorted({*paths, *(str(PurePosixPath(path).parent) for path in paths)}))


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder by name; none if it is unreadable."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path | str) -> object:
    """Return the identity of a file's state, and whether a later write would change it.

    A link is not followed if the path is a string. The time of changes of owner and mode is not
    used: when root reads a database, it sets that of its log.
    """
    try:
        found = os.lstat(path) if isinstance(path, str) else path.stat()
    except OSError as error:
        return error.errno
    settled = time.time() - found.st_mtime > SETTLED
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, settled


def _mark(*stamps: object) -> str:
    return sha256(repr(stamps).encode("utf-8", "surrogateescape")).hexdigest()[:16]


BESIDES = {
    "matrix": ("disciplines", "attention"),
    "status": ("overview", "knowledge"),
    "drift": ("attention",),
    "record": ("overview", "attention"),
    "sessions": ("overview",),
}
"""By section, others that show a part of it."""
UNTITLED = "Project"
SOON = 0.5  # seconds before an expensive fact is read, so that pages come first
Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of changes; `last` has the number of the last one by section."""

    number: int
    last: Mapping[str, int]

    def then(self, sections: Sequence[str]) -> "ChangeCounts":
        """Return the counts with one more change of these sections; unchanged if none are given."""
        if not sections:
            return self
        number = self.number + 1
        return ChangeCounts(number, {**self.last, **dict.fromkeys(sections, number)})


@dataclass(frozen=True, slots=True)
class ProjectHeading:
    """The project's heading on every page: its title, and whether it has no tasks."""

    title: str
    tables_alone: bool = False


class Board:
    """The state of the board of the project in `root`; every method may be called in any thread.

    Hold `acting` while you write the server or the project. `session` is the session of the user of
    this board. `findings` are the results of the last diagnosis. `is_checking` returns whether
    checks of this board run for a task, also those of an undo.
    """

    def __init__(self, root: Path) -> None:
        """Start with nothing read."""
        self.root = root
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.session = f"board-{moment}-{secrets.token_hex(4)}"
        self.acting = Lock()
        self.findings: Sequence[object] | None = None
        self.is_checking: Callable[[int], bool] = lambda _task: False
        self._changes = ChangeWatch(root)
        self._streams = StreamWatch(root)
        self._noting = Lock()
        self._marks: Marks | None = None
        self._counts = ChangeCounts(1, {})
        self._reading: dict[tuple[str, object], Lock] = {}
        self._kept: dict[tuple[str, object], tuple[int, Any]] = {}
        self._coming: set[tuple[str, object]] = set()

    def heading(self) -> ProjectHeading:
        """Return the project's heading, with its folder's name if its title is unreadable."""
        alone, name = has_tables_alone(self.root), self.root.name
        try:
            return ProjectHeading(project_title(self.root, name), alone)
        except RalphgenError:
            return ProjectHeading(name, alone)

    def listening(self) -> AbstractContextManager[None]:
        """Within the block, `check` finds writes sooner if the database announces them.

        It is for one caller at a time.
        """
        return self._changes.listening()

    def check(self, *, fully: bool = False) -> None:
        """Note which sections have changed since the last check.

        With `fully`, the check also asks a database server that has announced nothing.
        """
        with self._noting:
            before, self._marks = self._marks, self._changes.marks(fully=fully)
            if before is not None:
                self._counts = self._counts.then(_differing(before, self._marks))
            self._counts = self._counts.then(self._streams.changed())

    def follow(self, session_id: str) -> None:
        """Announce new events of a session from now on, because a page shows it."""
        self._streams.follow(session_id)

    def changed_since(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of the last change, and the sections changed after `number`."""
        counts = self._counts
        return counts.number, tuple(name for name, last in counts.last.items() if last > number)

    def note(self, *sections: str) -> None:
        """Count a change of these sections."""
        with self._noting:
            self._counts = self._counts.then(sections)

    def kept(self, section: str, read: Callable[[Path], Value]) -> Value:
        """Return what `read` returned at the last change of sections; read it once per change.

        Spaces separate the names of several sections.
        """
        key = (section, read.__qualname__)
        with self._reading.setdefault(key, Lock()):
            number = self._last(section)
            if key not in self._kept or self._kept[key][0] != number:
                self._kept[key] = number, read(self.root)
            value: Value = self._kept[key][1]
            return value

    def soon(self, section: str, read: Callable[[Path], Value], announce: str) -> Value | None:
        """Return what `kept` does, but never wait for it: an earlier value, or None before any.

        A thread reads the new one; `announce` is noted when it differs. `read` must not raise.
        """
        key = (section, read.__qualname__)
        known = self._kept.get(key)
        if known is None or known[0] != self._last(section):
            with self._noting:
                is_first = key not in self._coming
                self._coming.add(key)
            if is_first:
                reading = Timer(SOON, self._read_later, [section, read, announce])
                reading.daemon = True
                reading.start()
        return None if known is None else known[1]

    def _last(self, sections: str) -> int:
        return max(self._counts.last.get(one, 0) for one in sections.split())

    def _read_later(self, section: str, read: Callable[[Path], Any], announce: str) -> None:
        key = (section, read.__qualname__)
        known = self._kept.get(key)
        self._coming.discard(key)
        value = self.kept(section, read)
        if known is None or known[1] != value:
            self.note(announce)


def project_title(root: Path, other: str = UNTITLED) -> str:
    """Return the title of a project; the name of its folder may differ from clone to clone.

    A project with tables alone has no title: then it is `other`. Raises `ProjectError` if the
    database cannot be read.
    """
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


def _differing(before: Marks, after: Marks) -> tuple[str, ...]:
    """Return the sections that differ, and the sections that depend on them."""
    found = [name for name in Marks._fields if getattr(before, name) != getattr(after, name)]
    return tuple(dict.fromkeys(one for name in found for one in (name, *BESIDES.get(name, ()))))


STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]
INTERVAL = 0.25  # seconds between checks, while a stream is open
BEAT = 15.0  # seconds between signs of life in a silent stream
WRITE_PATIENCE = 15.0  # seconds for a client to take a few bytes


class Events:
    """The open streams; they share one check of the project every quarter of a second.

    A listener keeps only a number, so that unread changes do not pile up. Everything here belongs
    to the event loop.
    """

    def __init__(self, board: Board) -> None:
        """Start without a listener."""
        self._board = board
        self._listeners: set[asyncio.Event] = set()
        self._checking: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """End every stream, and let no new one begin."""
        self._closed = True
        self._wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its client leaves, takes nothing any more, or the board ends."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        woken = asyncio.Event()
        self._listeners.add(woken)
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
        leaving = asyncio.create_task(_left(receive))
        stream = asyncio.create_task(self._stream(_seen(Request(scope)), woken, send))
        try:
            ended, _ = await asyncio.wait({leaving, stream}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._listeners.discard(woken)
            leaving.cancel()
            stream.cancel()
        if stream in ended:
            with suppress(TimeoutError):  # the client reads nothing
                stream.result()

    async def _check(self) -> None:
        """Wake the listeners after each check that found something, until there are none.

        If a check fails, the next listener starts another one.
        """
        last = self._board.changed_since(0)
        try:
            with self._board.listening():
                while self._listeners and not self._closed:
                    await asyncio.sleep(INTERVAL)
                    await in_thread(self._board.check)
                    found = self._board.changed_since(0)
                    if found != last:
                        last = found
                        self._wake()
        finally:
            self._checking = None

    def _wake(self) -> None:
        for woken in self._listeners:
            woken.set()

    async def _stream(self, seen: int, woken: asyncio.Event, send: Send) -> None:
        await _send(send, ": begin\n\n")
        while not self._closed:
            woken.clear()
            number, sections = self._board.changed_since(seen)
            if sections:
                seen = number
                data = json.dumps({"sections": sections})
                await _send(send, f"id: {number}\nevent: changed\ndata: {data}\n\n")
                continue
            try:
                await asyncio.wait_for(woken.wait(), BEAT)
            except TimeoutError:
                await _send(send, ": beat\n\n")
        await send({"type": "http.response.body"})


async def _left(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    """Send a part of the stream; raises `TimeoutError` if the client does not read it."""
    async with asyncio.timeout(WRITE_PATIENCE):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _seen(request: Request) -> int:
    """Return the number of the last change that a page has shown; 0 if it is not given."""
    number = request.headers.get("last-event-id") or query_of(request).get("since", "")
    return int(number) if re.fullmatch("[0-9]{1,15}", number) else 0


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return or raise the result of `work`.

    The work continues if no request waits for it any more, but ends with the process: a pool's
    threads would first have to finish.
    """
    return await asyncio.wrap_future(begun(work))


def begun(work: Callable[[], Result]) -> "Future[Result]":
    """Start `work` in a thread that ends with the process, and return its future."""
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()
    Thread(target=_run, args=(work, future), daemon=True).start()
    return future


def _run(work: Callable[[], Any], future: "Future[Any]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
