"""Completion in common shells, each set up once; and the man page."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from driving import create_project

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
CLEAR = "\x15"  # what Ctrl-U sends: an empty line
PROMPT = "type here> "
CASES = [
    ("ralphgen loo", "ralphgen loop"),
    ("ralphgen launch task_e", "ralphgen launch task_execution"),
    ("ralphgen call ralph:create_t", "ralphgen call ralph:create_task"),
    ("ralphgen call ralph:list_t", "ralphgen call ralph:list_tasks"),
    ("ralphgen task list --fea", "ralphgen task list --feature"),
    ("ralphgen task status 1 ski", "ralphgen task status 1 skipped"),
]


def where(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not there")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_project(tmp_path / "project")


def home_of(shell: str, folder: Path) -> dict[str, str]:
    """Return the environment of a user who has set up completion in a shell."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folder.mkdir()
    variables = {"HOME": str(folder), "PATH": programs, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    told = subprocess.run(
        [shell, "-ic", "ralphgen --install-completion; true"],  # else zsh would become ralphgen
        env=variables,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert f"{shell} completion installed" in told.stdout, told.stderr
    return variables


@contextmanager
def at_terminal(shell: str, variables: dict[str, str], folder: Path) -> Iterator[int]:
    """The terminal of a shell that is ready for commands."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(shell, [shell, "-i"], variables)  # noqa: S606 - a shell is what is wanted
    try:
        os.write(terminal, b"PS1='type'' here> '; echo rea''dy\r")
        read_until(terminal, PROMPT)
        yield terminal
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def read_until(terminal: int, words: str) -> str:
    """Return a terminal's output up to these words, or until there is no more."""
    shown = ""
    end = time.monotonic() + PATIENCE
    while words not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


@pytest.mark.parametrize(
    "shell", [pytest.param("bash", marks=where("bash")), pytest.param("zsh", marks=where("zsh"))]
)
def test_a_key_completes_a_command(shell: str, tmp_path: Path, project: Path) -> None:
    with at_terminal(shell, home_of(shell, tmp_path / "home"), project) as terminal:
        os.write(terminal, b"ralphgen \t")  # with Typer's script the first one in zsh only loads it
        os.write(terminal, f"{CLEAR}echo loa''ded\r".encode())  # while one types on
        shown = read_until(terminal, "loaded")
        if PROMPT not in shown.rpartition("loaded")[2]:  # a key before it completes nothing in zsh
            read_until(terminal, PROMPT)
        for typed, completed in CASES:
            os.write(terminal, f"{CLEAR}{typed}\t".encode())
            shown = read_until(terminal, completed)
            assert completed in shown
            assert "usage:" not in shown


@where("fish")
def test_fish_completes_a_command(tmp_path: Path, project: Path) -> None:
    variables = home_of("fish", tmp_path / "home")
    for typed, completed in CASES:
        done = subprocess.run(
            [str(shutil.which("fish")), "-c", 'complete -C "$argv[1]"', typed],
            cwd=project,
            env=variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        offers = [line.split("\t")[0] for line in done.stdout.splitlines()]
        assert (completed.split()[-1:], "") == (offers[:1], done.stderr)


@where("mandoc")
def test_the_man_page_has_no_faults() -> None:
    command = ["mandoc", "-T", "lint", "-W", "warning", "docs/ralphgen.1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)

    found = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert [] == found  # a date would be another in each build


@where("man")
def test_people_can_read_it() -> None:
    variables = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [str(shutil.which("man")), "--warnings", "--local-file", "docs/ralphgen.1"],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "\n   ralphgen task add\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
