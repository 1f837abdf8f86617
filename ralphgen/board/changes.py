"""Says cheaply whether a section of the board must be drawn anew, whoever changed what it shows."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Event, Thread
from typing import Any, NamedTuple

from ralphgen.board.claims import liveness, read_claims
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.files import MANIFEST, SETTLED, listed
from ralphgen.kits.ralph.rows import LEARNINGS, PROGRESS, Rows
from ralphgen.kits.registry import read_settings
from ralphgen.kits.specum.progress import spec_files
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
from ralphgen.project.schema import column_names, relation_names
from ralphgen.runtime.session import LOCK
from ralphgen.runtime.tasks.claims import Claim
from ralphgen.sessions.end import Lock as SessionLock
from ralphgen.sessions.store import CONTEXT

PACE = 2.0
"""Seconds between two looks at what is many files: the generated ones, and who holds a session."""

SPECUM = "specum"
SCHEMA = "SELECT name, sql FROM sqlite_master"
DISCIPLINES = "SELECT * FROM disciplines"
"""What people edit besides what a server is made for."""
SNAPSHOT = "SELECT pg_catalog.pg_current_snapshot()::text"
"""What differs after any write in the database cluster."""


class Marks(NamedTuple):
    """A mark for each section; one that differs from an earlier one's must be drawn anew.

    Marks of another process on the same state are the same, but those of files just written.
    """

    status: str
    matrix: str
    drift: str
    record: str
    sessions: str
    specs: str


class ChangeWatch:
    """What a project's board shows, watched by the times, sizes and identities of files.

    No file is opened for long and no lock is held: a connection of our own, whose `data_version`
    would tell as much, would keep the last writer from removing `-wal`, and would lose its locks
    whenever another part of this process reads the database without a trace. Because the time of
    a file does not tell two writes of one moment apart, a file counts as changed once more when it
    has settled. `clock` counts seconds.
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
        """Within the block, see at the next look what one of ours writes into a database server.

        Nothing is done where there is none, and where it passes on no notices: then a look in
        `PACE` seconds sees it, as it sees what others write.
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

    def marks(self) -> Marks:
        """Return the marks as of now; they differ after any write that a section could show."""
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
        elif slowly or self._told:
            self._told = False  # before the look: what is written during it is told again
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
        except RalphgenError:  # whoever reads rows says it
            return project_home(self._root) / DATABASE

    @staticmethod
    def _log(path: Path) -> object:
        """Return the stamp of a write-ahead log; an empty one counts as a missing one.

        Whoever opens the database makes one, and whoever leaves it last takes it away.
        """
        try:
            empty = not path.stat().st_size
        except OSError:
            return None
        return None if empty else _stamp(path)

    def _look_at_file(self) -> None:
        """Know a mark for the schema and the disciplines, and the claims on tasks.

        They are read again when the file has changed, by the next look where somebody has it
        locked. Of the first, agents write nearly never.
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
                pass  # whatever is said of it, is said again
            self._known = database, known, claims

    def _look_into(self) -> None:
        """Know the same of a database on a server, where no file tells of a write."""
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
    """Return the generated files and their folders; none where the manifest cannot be read."""
    try:
        paths = listed(folder) or {}
    except OSError:
        return ()
    return tuple(sorted({*paths, *(str(PurePosixPath(path).parent) for path in paths)}))


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder by name; none where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path | str) -> object:
    """Return what identifies a file's state, and whether a later write would change it.

    A link on a path that is a text is not followed. It is not the time at which the file's owner or
    mode changed: root's own reading of a database sets that of its log.
    """
    try:
        found = os.lstat(path) if isinstance(path, str) else path.stat()
    except OSError as error:
        return error.errno
    settled = time.time() - found.st_mtime > SETTLED
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, settled


def _mark(*stamps: object) -> str:
    return sha256(repr(stamps).encode("utf-8", "surrogateescape")).hexdigest()[:16]
