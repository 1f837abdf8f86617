"""The command line in use: its processes, and the files that they leave."""

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from sqlite3 import connect
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import Any

from ralphgen.project.root import database_place

PATIENCE = 120.0  # seconds; a command that needs them hangs
AT_START = ("PYTHON", "LC_", "LANG")  # variables that an interpreter reads when it starts
ADOPTS = 36  # PR_SET_CHILD_SUBREAPER of Linux: orphans of what a process has started are its own
RALPHGEN = Path(sys.executable).with_name("ralphgen")
AS_NOBODY = """
import encodings.unicode_escape, getpass, importlib.readers, jinja2, logging, os, sys
import ralphgen.cli.commands, ralphgen.emit.workflows
import ralphgen.emit.scaffold, ralphgen.emit.write, ralphgen.exchange.branch
from ralphgen.cli.main import main
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.argv[0] = "ralphgen"
main()
"""
Result = subprocess.CompletedProcess[str]


class WarmProcess:
    """Runs commands in forks of a process that has imported all of them: 20 ms in place of 500."""

    def __init__(self, patience: float = PATIENCE) -> None:
        """Start it; it ends when its socket is closed, and a command after `patience` seconds."""
        self.patience = patience
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        """Start the process, the first time and after a command that hung."""
        program = Path(__file__).with_name("warm_process.py")
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, program, str(theirs.fileno())],
                env={**os.environ, "COLUMNS": "80"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @contextmanager
    def free(self) -> Iterator[bool]:
        """Whether it is free: it runs one command at a time, and commands at once are real ones."""
        taken = self._lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._lock.release()

    def run(
        self, command: Sequence[str], cwd: Path | None, environment: Mapping[str, str], stdin: str
    ) -> Result:
        """Run a command to its end, as `subprocess.run` does."""
        with ExitStack() as stack:
            files = [stack.enter_context(TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            self.start(command, cwd, environment, [file.fileno() for file in files])
            code = self.end()
            written = []
            for file in files[1:]:
                file.seek(0)
                written.append(file.read().decode())
        return Result(command, code, *written)

    def start(
        self,
        command: Sequence[str],
        cwd: Path | None,
        environment: Mapping[str, str],
        streams: Sequence[int],
        mark: bytes = b"!",
        *,
        apart: bool = False,
    ) -> None:
        """Start a command on three streams; call `end` before the next one.

        A command that is `apart` leads a new process session.
        """
        sys.audit("subprocess.Popen", command[0], command, cwd, environment)
        order = {
            "arguments": command,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(environment),
            "apart": apart,
        }
        with TemporaryFile() as file:
            file.write(json.dumps(order).encode())
            file.seek(0)
            socket.send_fds(self._orders, [mark], [file.fileno(), *streams])

    def end(self) -> int:
        """Wait for the end of the command that was started: its exit code.

        A command that hangs raises TimeoutError; a new process takes the next one.
        """
        self._orders.settimeout(self.patience)
        try:
            return int(self._orders.recv(16))
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            self.close()
            self._begin()
            raise

    def start_beside(
        self,
        command: Sequence[str],
        cwd: Path | None,
        environment: Mapping[str, str],
        streams: Sequence[int],
        *,
        apart: bool = False,
    ) -> int:
        """Start a command that becomes a child of this process; its id."""
        prctl = ctypes.CDLL(None).prctl
        prctl(ADOPTS, 1)
        try:
            self.start(command, cwd, environment, streams, b"&", apart=apart)
            return self.end()
        finally:
            prctl(ADOPTS, 0)

    def close(self) -> None:
        """End it."""
        self._orders.close()
        self._process.wait(PATIENCE)


class Beside(subprocess.Popen[Any]):
    """A command that runs next to the test, as a fork of the warm process."""

    def _execute_child(self, command: Sequence[str], *more: Any) -> None:
        """Replace the fork and the exec; the result behaves like any other child."""
        (cwd, environment), pipes, apart = more[4:6], more[9:15], more[20]
        streams = [own if own >= 0 else at for at, own in enumerate(pipes[0:1] + pipes[3:6:2])]
        folder, variables = cwd and Path(cwd), environment or os.environ
        warm = warm_process()
        self.pid = warm.start_beside(command, folder, variables, streams, apart=apart)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True


def started_beside(
    *arguments: str | Path, encoding: str | None = "utf-8", **options: Any
) -> "subprocess.Popen[Any]":
    """Start a command on pipes or with `options` of `Popen`.

    It is a fork of the warm process, if that is free.
    """
    command = [str(RALPHGEN), *map(str, arguments)]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    given = {**streams, "encoding": encoding, **options}
    with warm_process().free() as free:
        return (Beside if free else subprocess.Popen)(command, **given)


@cache
def warm_process() -> WarmProcess:
    """Return this test process's warm process, started at the first use."""
    process = WarmProcess()
    atexit.register(process.close)
    return process


def idle_claude(folder: Path) -> dict[str, str]:
    """Return variables whose PATH has a `claude` without a function: `launch` requires one."""
    program = folder / "bin/claude"
    program.parent.mkdir(exist_ok=True)
    program.touch(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def ralphgen(
    *arguments: str | Path,
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
    without_rights: bool = False,
    stdin: str = "",
    fresh: bool = False,
) -> Result:
    """Run a command to its end, 80 characters wide and without a terminal.

    `without_rights` runs it as a user without any rights of root. `fresh` starts an interpreter for
    it; by default it is a fork with all modules imported.
    """
    environment = {**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", **(more or {})}
    if not (fresh or without_rights or any(name.startswith(AT_START) for name in more or {})):
        warm = warm_process()
        with warm.free() as free:
            if free:
                return warm.run([str(RALPHGEN), *map(str, arguments)], cwd, environment, stdin)
    program = [sys.executable, "-c", AS_NOBODY] if without_rights else [RALPHGEN]
    return subprocess.run(
        [*program, *arguments],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE,
    )


def initialized(folder: Path, *arguments: str) -> Path:
    """A new project in the folder, without an environment."""
    done = ralphgen("init", folder, "--no-install", "--quiet", *arguments)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    return folder


def ran(
    *arguments: str | Path, cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> str:
    """Return the output of a command that must succeed."""
    done = ralphgen(*arguments, cwd=cwd, more=more)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def refused(*arguments: str | Path, code: int = 1, cwd: Path | None = None) -> str:
    """Return the error of a command that must fail without a traceback and standard output."""
    done = ralphgen(*arguments, cwd=cwd)
    assert (code, "") == (done.returncode, done.stdout), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1
    return done.stderr.partition("error: ")[2]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own are not."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run_sql(root: Path, *statements: str) -> None:
    """Change the project's database behind everybody's back."""
    if database_place(root) is not None:
        import_module("driving").query(root, ";\n".join(statements))
        return
    with closing(connect(root / ".ralph/db/ralph.db")) as connection:
        for statement in statements:
            connection.executescript(statement)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of change of everything below a folder; folders hold no bytes."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() else b"",
            path.lstat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def texts(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
