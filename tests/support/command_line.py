"""The command line as people use it: real processes, and what they leave on the disk."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect
from tempfile import TemporaryDirectory

RALPHGEN = Path(sys.executable).with_name("ralphgen")
AS_NOBODY = """
import encodings.unicode_escape, os, sys
import ralphgen.cli.commands, ralphgen.generate.workflows, ralphgen.output
import ralphgen.init.scaffold, ralphgen.init.stacks
from ralphgen.cli.main import main
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.argv[0] = "ralphgen"
main()
"""
Result = subprocess.CompletedProcess[str]


def ralphgen(
    *arguments: str | Path,
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
    without_rights: bool = False,
    stdin: str = "",
) -> Result:
    """Run a command to its end, 80 characters wide and without a terminal.

    `without_rights` runs it as a user whom no right of root helps.
    """
    program = [sys.executable, "-c", AS_NOBODY] if without_rights else [RALPHGEN]
    return subprocess.run(
        [*program, *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", **(more or {})},
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def initialized(folder: Path, *arguments: str) -> Path:
    """A new project in the folder, without an environment."""
    done = ralphgen("init", folder, "--no-install", "--quiet", *arguments)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    return folder


def refused(*arguments: str | Path, code: int = 1, cwd: Path | None = None) -> str:
    """What a command that must fail says; never a traceback, and nothing on standard output."""
    done = ralphgen(*arguments, cwd=cwd)
    assert (code, "") == (done.returncode, done.stdout), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("ralphgen: ") == 1
    return done.stderr.partition("ralphgen: ")[2]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own are not."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run_sql(root: Path, *statements: str) -> None:
    """Change the project's database behind everybody's back."""
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
