"""Commands on tasks in terminals of every width, and in pipes: layout, questions and escapes."""

import os
import pty
import re
import shlex
import struct
import subprocess
import termios
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, warm_process
from driving import create_project, query

from ralphgen.terminal.console import fitted

pytestmark = pytest.mark.slow

WIDTHS = (40, 60, 80, 120, 200)
LONG = "A title that is much longer than what a terminal of forty columns can show on a line"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p")


def typed(
    root: Path, words: Sequence[str], *, width: int = 80, keys: bytes = b""
) -> tuple[int, str]:
    """Exit code and screen of a command in a terminal of so many columns."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    process = warm_process()
    process.start([str(RALPHGEN), *words], root, environment, [slave] * 3)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        shown += part
        if keys and b"y/N" in shown:
            os.write(master, keys)
            keys = b""
    os.close(master)
    return process.end(), shown.decode()


def plain(screen: str) -> list[str]:
    """The lines of a screen without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", screen).replace("\r", "").splitlines()


def test_deleting_asks_in_a_terminal(root: Path) -> None:
    code, screen = typed(root, ["task", "delete", "2"], keys=b"n\n")
    assert (1, True) == (code, 'delete task 2 "Show the form"? y/N' in screen)

    code, screen = typed(root, ["task", "delete", "2"], keys=b"y\n")
    assert (0, True) == (code, "deleted task 2" in screen)
    assert [(1,)] == query(root, "SELECT id FROM tasks")


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_fit_the_terminal(root: Path, width: int) -> None:
    query(root, "UPDATE tasks SET title = ?, priority = 'high' WHERE id = 1", LONG)
    query(root, "UPDATE disciplines SET description = ?", LONG)
    for words in (
        ["task", "list"],
        ["task", "next"],
        ["discipline", "list"],
        ["task", "show", "1"],
    ):
        code, screen = typed(root, words, width=width)
        assert 0 == code, screen
        lines = [line for line in plain(screen) if not line.startswith("next: ")]
        assert max(map(len, lines)) <= width, screen
        assert "\x1b[" in screen
        if words == ["task", "list"]:
            assert {"id", "status", "title"} <= {*lines[0].split()}


def test_a_terminal_shows_the_feature_of_a_claimed_task_before_its_holder(root: Path) -> None:
    assert 0 == ralphgen("db", "ledger", "on", "--yes", cwd=root).returncode
    assert 0 == ralphgen("session", "create", "task_execution", "--task", "1", cwd=root).returncode
    _, screen = typed(root, ["task", "list"])

    assert ["id", "status", "feature", "discipline", "title"] == plain(screen)[0].split()
    assert ["1", "claimed", "auth", "backend", "Log", "in"] == plain(screen)[1].split()


def test_a_pipe_has_all_and_no_colours(root: Path) -> None:
    query(root, "UPDATE tasks SET title = ? WHERE id = 1", LONG)
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}

    done = subprocess.run(
        [str(RALPHGEN), "task", "list"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert LONG in done.stdout
    assert "\x1b" not in done.stdout


def test_a_title_steers_no_terminal(root: Path) -> None:
    query(root, "UPDATE tasks SET title = ?, description = ?", "a\x1b[31m\u202eb", "c\x1b[2J\nd")
    for words in (["task", "list"], ["task", "show", "1"], ["task", "next"]):
        _, screen = typed(root, words)
        assert "\x1b[31m\u202e" not in screen
        assert "\u202e" not in screen
        assert "\x1b[2J" not in screen


@pytest.mark.parametrize(("kit", "folder"), [("ralph", "a shop"), ("specum", ".")])
def test_init_ends_with_commands_that_work(tmp_path: Path, kit: str, folder: str) -> None:
    seen: list[str] = []
    for _ in range(2):
        made_so = ralphgen("init", folder, "--kit", kit, cwd=tmp_path)
        hints = made_so.stderr.partition("\nNext:\n")[2]
        assert all(len(line) <= 80 for line in hints.splitlines())
        lines = hints.replace("\\\n", " ").splitlines()
        assert "launch --next" in lines[-1]
        for line in [line for line in lines[:-1] if line not in seen]:
            program, *words = shlex.split(line, comments=True)
            if program == "cd":
                assert [folder] == words
                continue
            done = ralphgen(*words, cwd=tmp_path / folder)
            assert ("ralphgen", 0) == (program, done.returncode), (line, done.stderr)
        seen += lines
    assert "session create" in "".join(seen)
    assert "session create" not in ralphgen("init", folder, cwd=tmp_path).stderr


def test_a_terminal_gets_the_servers_log_as_text(root: Path) -> None:
    query(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    _, screen = typed(root, ["task", "list"])

    assert 'warning: column tasks.risk is new; run "ralphgen regen"' in screen
    assert '"level"' not in screen


def test_loop_warns_of_a_newer_schema(root: Path) -> None:
    warning = 'warning: the generated server is out of date: run "ralphgen regen"\n'
    assert warning not in ralphgen("loop", "--dry-run", cwd=root).stderr

    query(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")

    assert 1 == ralphgen("loop", "--dry-run", cwd=root).stderr.count(warning)


def test_newer_settings_are_reported_until_regen(root: Path) -> None:
    warning = 'warning: the generated server is out of date: run "ralphgen regen"\n'
    settings = root / ".ralph/ralphgen.toml"
    text = settings.read_text(encoding="utf-8") if settings.exists() else ""
    assert warning not in ralphgen("task", "list", cwd=root).stderr

    settings.write_text(f"{text}\n# a comment\n", encoding="utf-8")
    assert warning not in ralphgen("task", "list", cwd=root).stderr

    settings.write_text(f'{text}\n[schema]\nhide = ["tasks.hints"]\n', encoding="utf-8")
    first_task = ("session", "create", "task_execution", "--task", "1")
    for words in (("task", "list"), ("task", "list"), first_task, ("loop", "--dry-run")):
        assert 1 == ralphgen(*words, cwd=root).stderr.count(warning), words

    assert 0 == ralphgen("regen", "--no-install", cwd=root).returncode
    assert warning not in ralphgen("task", "list", cwd=root).stderr


EDITOR = """#!/bin/sh
if grep -q Mine "$1"; then
    sed -i "$AGAIN" "$1"
else
    sed -i "s/Log in/Mine/" "$1"
    env -u VISUAL RALPHGEN task edit 1 --title Theirs --hints theirs >&2
fi
"""


@pytest.mark.parametrize(
    ("again", "code", "title"),
    [("/^#/d", 0, "Mine"), ("s/Mine/Both Mine/", 0, "Both Mine"), ("", 1, "Theirs")],
    ids=["written all the same", "put together", "left as it is"],
)
def test_what_both_have_changed_is_opened_again_with_both_versions(
    root: Path, monkeypatch: pytest.MonkeyPatch, again: str, code: int, title: str
) -> None:
    script = root / "editor.sh"
    script.write_text(EDITOR.replace("RALPHGEN", str(RALPHGEN)), encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    monkeypatch.setenv("AGAIN", again)

    done, screen = typed(root, ["task", "edit", "1"], keys=b"y\n")

    assert code == done, screen
    words = " ".join(" ".join(plain(screen)).split())
    assert 'it was "Log in", is now "Theirs", and you typed "Mine"' in words
    assert [(title, "theirs")] == query(root, "SELECT title, hints FROM tasks WHERE id = 1")


def test_sentences_fit_the_terminal_and_commands_keep_their_line(tmp_path: Path) -> None:
    root = create_project(tmp_path / ("a-directory-with-a-long-name/" * 3))
    query(root, "UPDATE tasks SET title = ?, status = 'draft'", LONG * 2)
    _, hint = typed(root, ["call", "ralph:x"])
    _, question = typed(root, ["task", "delete", "2"], keys=b"n\n")
    _, summary = typed(root, ["status"])
    _, created = typed(root, ["session", "create", "yap"])
    piped = ralphgen("call", "ralph:x", cwd=root).stderr

    for screen in (hint, question, summary):
        assert all(len(line) <= 80 for line in plain(screen)), screen
    assert ' append_progress; "ralphgen tools"\r\n  lists them\r\n' in hint
    assert 2 == len(piped.splitlines())
    (start,) = [line for line in plain(created) if "claude" in line]
    assert start.startswith("  claude --strict-mcp-config --mcp-config ")


@pytest.mark.parametrize(
    "command",
    [
        "ralphgen task add 'A title with many words' --feature start --discipline architecture",
        "openssl rand -hex 32 | tee a-file-with-a-rather-long-name-that-fills-the-line.txt",
        'pg_dump --format=custom --file=ralph.dump --schema=public "$RALPH_DSN_OF_THE_PROJECT"',
    ],
)
def test_a_command_in_a_hint_keeps_its_line(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [f"hint: make one with: {command}", f"hint: {command}"]
    terminals = pty.openpty()
    shown = [fitted(line, terminals[1]) for line in lines]
    for terminal in terminals:
        os.close(terminal)

    assert [f"hint: make one with:\n  {command}", f"hint:\n  {command}"] == shown
    assert lines == [fitted(line, -1) for line in lines]


def test_next_commands_follow_a_cd_unless_the_program_is_relative(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ralphgen").symlink_to(RALPHGEN)
    path = {**os.environ, "PATH": "/usr/bin:/bin"}
    relative, absolute = (
        subprocess.run(
            [program, "init", name, "--no-install"],
            cwd=tmp_path,
            env=path,
            capture_output=True,
            text=True,
            check=True,
        ).stderr.partition("\nNext:\n")[2]
        for program, name in (("bin/ralphgen", "one"), (tmp_path / "bin/ralphgen", "two"))
    )

    assert relative.startswith("  bin/ralphgen connect claude -C one\n")
    assert absolute.startswith(f"  cd two\n  {tmp_path}/bin/ralphgen connect claude\n")
