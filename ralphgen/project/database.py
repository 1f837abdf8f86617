"""Opens the database of a project: the only module that chooses its engine.

A file that is opened for reading stays alone: no file appears next to it.
"""

import json
import os
import re
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ralphgen.errors import ProjectError
from ralphgen.project.root import (
    DatabasePlace,
    database_location,
    database_name,
    database_path,
    database_place,
    engine_of,
    has_database,
)
from ralphgen.runtime.engine import PATIENCE as LONG
from ralphgen.runtime.engine import LockedDatabaseError
from ralphgen.runtime.engine.postgresql import (
    LOGINS,
    MISSING,
    DsnError,
    missing_grant,
    settings,
)
from ralphgen.runtime.engine.postgresql import database as postgresql
from ralphgen.runtime.engine.sqlite import database as sqlite
from ralphgen.runtime.engine.sqlite.journal import OWN
from ralphgen.runtime.errors import StartError, ToolError

if TYPE_CHECKING:
    import psycopg

    from ralphgen.runtime import engine

Database: TypeAlias = "engine.Database"
Snapshot: TypeAlias = "engine.Snapshot"
Result = TypeVar("Result")
EXAMPLE = "postgresql://me@localhost/shop"
INSTALL = "pipx install --force '.[postgresql]'"

PATIENCE = 2.0
"""Seconds to wait for another process that is writing."""

ALONE = RLock()
"""Held by the thread that has a database open: two would end each other's locks (POSIX)."""

LARGEST_IN_MEMORY = 32 * 1024 * 1024

ENDS = ("*.db", "*.sqlite", "*.sqlite3")
"""Patterns of the names that databases of an app have."""

_DETACHED: list[bool] = []
_PAUSE = 0.02
_MAGIC = b"SQLite format 3\0"
_WAL_READ_VERSION_AT = 19
_WAL = 2
_SIDECARS = ("-wal", "-journal")
_UNREADABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL}
_COPY_HELPS = {sqlite3.SQLITE_READONLY, *_UNREADABLE}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
REFUSALS = (ToolError, sqlite3.Error)  # the latter comes from direct reads
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_JOURNALED = "SELECT 1 FROM temp.sqlite_master WHERE type = 'trigger' AND name NOT LIKE ?"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class NoConnectionError(ProjectError):
    """No connection is possible: the variable is not set, or the server does not respond."""


class FileSnapshot(sqlite.Snapshot):
    """A snapshot of a file that reads bytes that are not UTF-8 as U+FFFD.

    The driver decodes strings, and Python only if that fails: a Python call for each string is
    slow.
    """

    __slots__ = ()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""
        return self._decoded(lambda: sqlite.Snapshot.rows(self, sql, values))

    def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one."""
        yield from self.rows(sql, values)

    def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        return self._decoded(lambda: sqlite.Snapshot.row(self, sql, values))

    def record(self, sql: str, values: Sequence[object] = ()) -> dict[str, Any]:
        """Return the first row by column, empty if there is none."""
        return self._decoded(lambda: sqlite.Snapshot.record(self, sql, values))

    def _decoded(self, read: Callable[[], Result]) -> Result:
        if self.connection.text_factory is not str:
            return read()
        try:
            return read()
        except sqlite3.OperationalError:
            self.connection.text_factory = lambda text: text.decode(errors="replace")
            return read()
        finally:
            self.connection.text_factory = str


def module_of(root: Path, name: str) -> Any:
    """Return a module of the engine of the project in `root`, without opening the database."""
    return import_module(f"ralphgen.runtime.engine.{engine_of(root)}.{name}")


def part_for(connection: Snapshot, module: str) -> Any:
    """Return the module for the engine of a connection, whose name ends with that of the engine."""
    return import_module(f"{module}_{str(connection.sql.__package__).rpartition('.')[2]}")


@contextmanager
def without_database() -> Iterator[None]:
    """Let no code of this process open the project's database in the block: a worker has none.

    A clone may have a copy, and a variable may have its DSN.
    """
    _DETACHED.append(True)
    try:
        yield
    finally:
        _DETACHED.pop()


def is_detached() -> bool:
    """Return whether this process works without the project's database."""
    return bool(_DETACHED)


def _refuse_detached() -> None:
    if _DETACHED:
        raise ProjectError("a worker has no database", "run the command on the server's machine")


@contextmanager
def open_database(root: Path, place: DatabasePlace | None = None) -> Iterator[Snapshot]:
    """Open the database of the project in `root` for reading; it shows one moment.

    `place` overrides the settings. No writer waits for the reader, unless the database is a large
    file without a log. Raises `ProjectError` if it cannot be read, and `NoConnectionError` without
    a connection.
    """
    _refuse_detached()
    place = place or database_place(root)
    if place is None:
        try:
            with open_without_trace(database_path(root), briefly=True) as file:
                yield FileSnapshot(file)
        except sqlite3.Error as error:
            text = f"the database cannot be read: {error}"
            raise ProjectError(text, 'run "ralphgen doctor"') from error
        return
    begin = f"{_BEGIN}; {settings(place.schema)}".encode()
    with ExitStack() as stack:
        connection = _shared_reader(stack, place, begin)
        is_new = connection is None
        connection = connection or stack.enter_context(connected(place))
        import psycopg

        try:
            if is_new:
                connection.execute(begin)
            yield postgresql.Snapshot(connection)
        except psycopg.Error as error:
            text = f"the database in {place.dsn_env} cannot be read: {first_line(error)}"
            grant = missing_grant(error, connection.info.user, place.schema)
            hint = f"as the owner of the tables, run: {grant}" if grant else 'run "ralphgen doctor"'
            raise ProjectError(text, hint) from error


class _Shared:
    """The connections of this process to one database, which remain open between uses.

    Each serves one thread at a time. A connection with changed settings is closed after its use.
    """

    def __init__(self, name: str, opened: Callable[[], Database]) -> None:
        self._name = name  # in `_SHARED`
        self._opened = opened
        self._idle: list[Database] = []
        self._in_use: list[Database] = []
        self._is_over = False

    @contextmanager
    def borrow(self) -> Iterator[Database]:
        """Yield a working connection that no other thread uses."""
        database = self._take()
        self._in_use.append(database)
        try:
            yield database
        finally:
            self._in_use.remove(database)
            if self._is_over or not _can_serve_again(database):
                database.close()
            else:
                self._idle.append(database)
            self._leave()

    def end(self) -> None:
        """Close the connections, one in use after its use, and share none any more."""
        self._is_over = True
        while self._idle:
            self._idle.pop().close()
        self._leave()

    def _leave(self) -> None:
        """End the sharing if it is over and nothing is in use."""
        if self._is_over and not self._in_use and _SHARED.get(self._name) is self:
            del _SHARED[self._name]

    def _take(self) -> Database:
        """Return an idle connection that works and has the current files, or a new one."""
        with suppress(IndexError):
            while True:
                database = self._idle.pop()
                try:
                    database.reading(lambda: None)
                except ToolError:
                    database.close()
                else:
                    return database
        return self._opened()


_SHARED: dict[str, _Shared] = {}
"""The shared connections of this process, by real path, or by variable and schema."""


@contextmanager
def shared_connections(root: Path) -> Iterator[None]:
    """Let all threads share connections to the project's database in the block.

    Without it, each use opens one and closes it.
    """
    guard = ALONE if database_place(root) is None else nullcontext()
    name = _shared_name(root)
    with guard:
        shared = _SHARED[name] = _Shared(name, lambda: _opened(root, LONG))
    try:
        yield
    finally:
        with guard:
            shared.end()


def _shared_reader(
    stack: ExitStack, place: DatabasePlace, begin: bytes
) -> "psycopg.Connection[Any] | None":
    """Return a shared connection that has begun to read; None if only a new one can."""
    shared = _SHARED.get(place.server_location)
    if shared is None:
        return None
    import psycopg

    database: Any = stack.enter_context(shared.borrow())
    try:
        database.open()  # an idle one is, and was checked
        connection: psycopg.Connection[Any] = database.connection
        connection.execute(begin)
    except (ToolError, psycopg.Error):
        return None
    stack.callback(connection.rollback)
    return connection


def _shared_name(root: Path) -> str:
    place = database_place(root)
    return os.path.realpath(database_path(root)) if place is None else place.server_location


def _opened(root: Path, patience: float) -> Database:
    _refuse_detached()
    opened = sqlite.Database if database_place(root) is None else postgresql.Database
    try:
        return opened(database_location(root), patience)
    except StartError as error:
        raise ProjectError(str(error)) from error


def _can_serve_again(database: Database) -> bool:
    """Return whether nothing checks or journals the writes of a connection, and none is open."""
    if database.before_writes or database.before_commits or not database.has_tasks:
        return False
    if isinstance(database, postgresql.Database):
        from ralphgen.runtime.engine.postgresql.driver import is_idle

        try:
            return database.before_changes is None and is_idle(database.connection)
        except ToolError:  # not connected
            return True
    if database.is_lost or database.connection.in_transaction:
        return False
    checks_keys = database.row("PRAGMA foreign_keys") == (1,)
    return checks_keys and database.row(_JOURNALED, [f"{OWN}%"]) is None


@contextmanager
def _read_shared_file(
    shared: _Shared, path: Path, patience: float, *, briefly: bool
) -> Iterator[sqlite3.Connection]:
    """Yield a shared connection that reads one moment, as `open_without_trace`."""
    deadline = time.monotonic() + patience
    with shared.borrow() as database:
        connection: sqlite3.Connection = database.connection
        texts = connection.text_factory
        connection.execute("PRAGMA query_only = ON")
        try:
            while not _has_begun(connection, path, deadline):
                time.sleep(_PAUSE)
            if briefly and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                content = connection.serialize()
                connection.execute("ROLLBACK")
                with closing(sqlite3.connect(":memory:", isolation_level=None)) as read:
                    read.deserialize(content)
                    yield read
            else:
                yield connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("PRAGMA query_only = OFF")
            connection.text_factory = texts


def _has_begun(connection: sqlite3.Connection, path: Path, deadline: float) -> bool:
    """Begin to read; return False if another process is writing, until the deadline."""
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        refusal = _refusal(path, error)
        if refusal is None:
            raise
        if not isinstance(refusal, LockedError) or time.monotonic() >= deadline:
            raise refusal from error
        return False
    return True


@contextmanager
def opened_database(root: Path) -> Iterator[Database]:
    """The project's database, open for changes; raises `ProjectError` if that fails."""
    with connected_database(root) as database:
        try:
            yield database
        except REFUSALS as error:
            raise refused_by(error, f"{database_name(root)}: {error}") from error


def refused_by(error: ToolError | sqlite3.Error, text: str) -> ProjectError:
    """Return the error for a refusal of the database: `LockedError` if it can work later."""
    is_busy = (
        isinstance(error, LockedDatabaseError)
        or getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
    )
    if is_busy:
        return LockedError(text)
    return ProjectError(text, error.hint if isinstance(error, ToolError) else "")


@contextmanager
def connected_database(root: Path, patience: float = LONG) -> Iterator[Database]:
    """The project's database, whose own errors reach the caller.

    `patience` is the number of seconds to wait for other writers. Raises `ProjectError` if the
    database cannot be opened. A server is contacted only at the first use.
    """
    on_server = database_place(root) is not None
    if not has_database(root):
        raise no_database(database_name(root))
    if on_server:
        require_psycopg()
    shared = _SHARED.get(_shared_name(root))
    if shared is not None and patience == LONG:
        with shared.borrow() as database:
            yield database
        return
    guard = nullcontext() if on_server or shared is not None else ALONE
    with guard, closing(_opened(root, patience)) as database:
        yield database


@contextmanager
def open_without_trace(
    path: Path, *, patience: float = PATIENCE, briefly: bool = False
) -> Iterator[sqlite3.Connection]:
    """A read-only connection to the database at `path`, which sees a single moment of it.

    No file appears next to the database and none changes, including `-wal`, `-shm` and `-journal`.
    A journal that a crash left behind is rolled back in a temporary copy. Waits `patience` seconds
    for a writer. With `briefly`, no writer waits for the work on the connection, unless the
    database is large and has no log.

    Raises `ProjectError` for a file that is missing, a folder, empty, not a database, corrupt,
    unreadable or locked. Threads wait for each other. A process with `shared_connections` reads on
    one of them, because opening the file would end their locks (POSIX).
    """
    shared = _SHARED.get(os.path.realpath(path))
    if shared is not None:
        with _read_shared_file(shared, path, patience, briefly=briefly) as connection:
            yield connection
        return
    deadline = time.monotonic() + patience
    while True:
        with ExitStack() as stack:
            stack.enter_context(ALONE)
            try:
                connection = stack.enter_context(_open_alone(path, patience, briefly=briefly))
            except LockedError:
                if time.monotonic() >= deadline:
                    raise
            else:
                yield connection
                return
        time.sleep(_PAUSE)  # not alone: the others wait at the same time


class LockedError(ProjectError):
    """Another process is writing."""


@contextmanager
def _open_alone(path: Path, patience: float, *, briefly: bool) -> Iterator[sqlite3.Connection]:
    file = Path(os.path.realpath(path))
    header = _header(path, file)
    unlocked, before = _needs_no_lock(file, header), _stamp(file)
    try:
        with _reading(file, header, patience, unlocked=unlocked) as connection:
            if unlocked or not briefly or _is_wal(header):
                yield connection
            else:
                with closing(_in_memory(file, connection)) as read:
                    yield read
    except sqlite3.DatabaseError as error:
        if unlocked and _stamp(file) != before:
            raise _changed(path) from error
        refusal = _refusal(path, error)
        if refusal is None:
            raise
        raise refusal from error
    if unlocked and _stamp(file) != before:
        raise _changed(path)


def is_sqlite(path: Path) -> bool:
    """Return whether a file can be read and begins as an SQLite database does."""
    try:
        if not path.is_file():  # opening a pipe waits for its other end
            return False
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def no_database(name: str) -> ProjectError:
    """Return the error of a database that does not exist."""
    hint = 'create it with "ralphgen init", then review "ralphgen trust"'
    return ProjectError(f"no database at {name}", hint)


def nearest_database(root: Path, name: str) -> str:
    """Return the path of the SQLite database in a project that is most like `name`, or "".

    It is at most two directories deep, and no backup.
    """
    patterns = [folder + end for folder in ("", "*/", "*/*/") for end in ENDS]
    files = [path for pattern in patterns for path in root.glob(pattern) if is_sqlite(path)]
    names = [path.relative_to(root).as_posix() for path in files if path.parent.name != "backups"]
    return max(names, key=lambda one: SequenceMatcher(None, one, name).ratio(), default="")


def _header(path: Path, file: Path) -> bytes:
    """Return the first 100 bytes, once the file is seen to be a database."""
    name = _quoted(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ProjectError(
                f"database {name} is a directory, expected a file", "move the directory elsewhere"
            )
        if not stat.S_ISREG(mode):
            raise ProjectError(f"database {name} is not a regular file")
        with file.open("rb") as stream:
            header = stream.read(100)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_database(name) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if not header:
        hint = 'delete the file, then run "ralphgen init"'
        raise ProjectError(f"database {name} is empty (0 bytes)", hint)
    if not header.startswith(_MAGIC):
        raise ProjectError(
            f'{name} is not an SQLite database: it does not start with "SQLite format 3"',
            'replace it with the project\'s database, or move it elsewhere and run "ralphgen init"',
        )
    return header


def _needs_no_lock(file: Path, header: bytes) -> bool:
    """Return whether a file contains all commits, and SQLite cannot lock it without a trace.

    In WAL mode even a reader creates `-wal` and `-shm`. Without a `-wal` no commit is pending, and
    the file itself changes only at a checkpoint. Any other database is read under its locks, which
    leave nothing behind.
    """
    return _is_wal(header) and not any(_beside(file, sidecar).exists() for sidecar in _SIDECARS)


@contextmanager
def _reading(
    file: Path, header: bytes, patience: float, *, unlocked: bool
) -> Iterator[sqlite3.Connection]:
    """A connection by the first way that works: without locks, with them, to a copy."""
    if unlocked:
        connection: sqlite3.Connection | None = _snapshot(file, "mode=ro&immutable=1")
    else:
        connection = _locked(file, header)
    if connection is None:
        with _copied(file, patience) as copy:
            yield copy
    else:
        with closing(connection):
            yield connection


def _locked(file: Path, header: bytes) -> sqlite3.Connection | None:
    """Return a connection that reads under SQLite's locks, or `None` if only a copy can be read.

    `readonly_shm` prevents SQLite from creating a `-shm`, and from repairing one after a crash.
    """
    if _is_wal(header) and not _beside(file, "-wal").exists():
        return None
    try:
        return _snapshot(file, "mode=ro&readonly_shm=1")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _COPY_HELPS:
            raise
        return None


def _in_memory(file: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection to a copy in memory, and close the given one, which has a read lock.

    Without a write-ahead log, a commit waits for all readers. A large file is not copied: the given
    connection is returned.
    """
    if file.stat().st_size > LARGEST_IN_MEMORY:
        return connection
    with file.open("rb") as stream:
        content = stream.read()
        connection.close()  # before the stream, whose end would end its lock (POSIX)
    read = sqlite3.connect(":memory:", isolation_level=None)
    read.deserialize(content)
    return read


@contextmanager
def _copied(file: Path, patience: float) -> Iterator[sqlite3.Connection]:
    """A connection to a copy, in a folder where SQLite may roll back and make a wal-index."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ralphgen-"))
            copy = _copy(file, Path(folder), patience)
        except OSError as error:
            raise _unreadable(file, error) from error
        connection = stack.enter_context(closing(_snapshot(copy, "mode=rw")))
        connection.execute("PRAGMA query_only = ON")
        yield connection


def _copy(file: Path, folder: Path, patience: float) -> Path:
    """Return a copy of the database and its sidecars, all from the same moment."""
    deadline = time.monotonic() + patience
    while True:
        before = _stamps(file)
        copy = Path(tempfile.mkdtemp(dir=folder)) / "copy.db"
        for suffix in ("", *_SIDECARS):
            with suppress(FileNotFoundError):
                shutil.copyfile(_beside(file, suffix), _beside(copy, suffix))
        if _stamps(file) == before:
            return copy
        if time.monotonic() > deadline:
            raise _changed(file)


def _snapshot(file: Path, options: str) -> sqlite3.Connection:
    """Return a connection inside an open read transaction; never waits for a lock."""
    connection = sqlite3.connect(
        f"{file.as_uri()}?{options}", uri=True, timeout=0, isolation_level=None
    )
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_wal(header: bytes) -> bool:
    return header[_WAL_READ_VERSION_AT : _WAL_READ_VERSION_AT + 1] == bytes([_WAL])


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _stamps(file: Path) -> list[tuple[int, int, int] | None]:
    return [_stamp(_beside(file, suffix)) for suffix in ("", *_SIDECARS)]


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return facts that change with a file's bytes; `None` without a file."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _refusal(path: Path, error: sqlite3.DatabaseError) -> ProjectError | None:
    """Return the error for a failure of the file, or `None` if the query is at fault."""
    name, code = _quoted(path), getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        hint = "close the program that is writing to it, then run the command again"
        return LockedError(f"database {name} is locked by another process", hint)
    if code in _DAMAGED:
        hint = "restore a backup, or recover the remaining data with: sqlite3 FILE .recover"
        return ProjectError(f"database {name} is corrupt: {error}", hint)
    if code in _UNREADABLE:
        return ProjectError(
            f"database {name} cannot be read: {error}", "check the permissions of the file"
        )
    return None


def _unreadable(path: Path, error: OSError) -> ProjectError:
    reason = (error.strerror or str(error)).lower()
    text = f"database {_quoted(path)} cannot be read: {reason}"
    return ProjectError(text, "check the permissions of the file and its directory")


def _changed(path: Path) -> ProjectError:
    text = f"database {_quoted(path)} changed while it was being read"
    return ProjectError(text, "run the command again")


def _quoted(path: Path) -> str:
    """Return the path in quotes on one line, whatever characters are in it."""
    return json.dumps(str(path), ensure_ascii=False)


@contextmanager
def connected(place: DatabasePlace) -> Iterator["psycopg.Connection[Any]"]:
    """A connection as servers have one, which commits each statement by itself.

    Raises `NoConnectionError` without one, and `ProjectError` for an unusable DSN.
    """
    variable = place.dsn_env
    dsn = os.environ.get(variable, "")
    if not dsn.strip():
        raise NoConnectionError(
            f'the variable "{variable}" is not set; it has to contain a PostgreSQL DSN',
            f"set {variable}, for example: export {variable}={EXAMPLE}",
        )
    require_psycopg()
    import psycopg

    from ralphgen.runtime.engine.postgresql.driver import connect, dsn_parameters

    try:
        password = dsn_parameters(dsn).get("password")
    except DsnError as error:
        raise ProjectError(
            f'the DSN in the variable "{place.dsn_env}" has an {error}',
            "remove it from the DSN, or set it in the app itself",
        ) from None
    except psycopg.ProgrammingError:
        raise ProjectError(
            f'the variable "{place.dsn_env}" does not contain a PostgreSQL DSN',
            f"set {place.dsn_env}, for example: export {place.dsn_env}={EXAMPLE}",
        ) from None  # the message of psycopg contains a part of it
    try:
        connection = connect(dsn)
    except psycopg.Error as error:
        text = first_line(error)
        reason = re.sub(re.escape(str(password)), "…", text) if password else text
        raise NoConnectionError(
            f"cannot connect to the database in {place.dsn_env}: {reason}",
            f"check that the server is running and that {place.dsn_env} is correct",
        ) from None
    with connection:
        yield connection


def require_psycopg() -> None:
    """Raise `ProjectError` unless psycopg is installed."""
    try:
        import_module("ralphgen.runtime.engine.postgresql.driver")
    except ImportError as error:
        raise ProjectError(
            "PostgreSQL requires psycopg, which is not installed",
            f"in a clone of ralphgen, run: {INSTALL}",
        ) from error


def is_away(root: Path) -> bool:
    """Return whether the server of the database does not answer; a refusal is an answer.

    A file is never away.
    """
    place = database_place(root)
    if place is None:
        return False
    try:
        with connected(place):
            return False
    except NoConnectionError as error:
        return not any(words in str(error) for words in (*LOGINS, MISSING))
    except ProjectError:
        return False


def first_line(error: Exception) -> str:
    """Return the first line of PostgreSQL's error message."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
