"""No command writes a control or bidirectional character of a project, to a pipe or a terminal."""

import json
import os
import pty
import re
import shutil
import struct
import sys
import termios
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, warm_process
from driving import made_here, query
from proved_projects import check, git, proved_project, python

from ralphgen.emit.trust import check_items
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record
from ralphgen.sessions.create import project_items
from ralphgen.terminal.console import COMMANDS as TABLE

pytestmark = pytest.mark.slow

STEERING = "".join(
    chr(code)
    for code in (
        *range(0x01, 0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0xA0),
        0x061C,
        *(0x200E, 0x200F),
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
    )
)
STEERS = re.compile(f"[{re.escape(STEERING)}\ud800-\udfff]")
EVIL = f"a\x1b]0;owned\x07\x9b31m{STEERING}z"
IN_NAMES = "\x1b[2J\x9b5m\x7f\u202e\u2066\u061c"  # legal in names of files and branches
FROM_RICH = re.compile(r"\x1b\[[0-9;]*m|\x1b\[(?:\?25[lh]|2K|[0-9]*[AGK])|\r")
AGENT = f"""
import json, sys
print({EVIL!r})
print(json.dumps({{"type": "text", "text": {EVIL!r}}}))
print({EVIL!r}, file=sys.stderr)
"""
CHECK = f"import sys; print({EVIL!r}); print({EVIL!r}, file=sys.stderr); sys.exit(1)"


def recorded(root: Path) -> Path:
    """A project whose settings the user has accepted."""
    made_here(root)
    items = [*check_items(read_settings(root).done), *project_items(root)]
    add_to_record(root, [item.digest for item in items])
    return root


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a stranger who puts such characters wherever that is possible."""
    folder = tmp_path_factory.mktemp("hostile") / f"in{IN_NAMES}"
    folder.mkdir()
    agent = folder / "agent.py"
    agent.write_text(AGENT, encoding="utf-8")
    command = json.dumps([sys.executable, str(agent), "{config}", "{prompt_file}"])
    config = check("tests", *python(CHECK)) + f"[loop.agents.mine]\ncommand = {command}\n"
    root = proved_project(folder / "p", config)
    for statement in (
        "UPDATE tasks SET title = ?, description = ?",
        "UPDATE features SET display_name = ?, description = ?",
        "UPDATE disciplines SET display_name = ?, description = ?",
    ):
        query(root, statement, EVIL, f"one\n{EVIL}")
    query(root, "UPDATE tasks SET status = 'pending' WHERE id = 1")
    query(root, "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'human', ?)", EVIL)
    name = EVIL.replace("\x1f", "")
    query(root, "INSERT INTO features (name, acronym, display_name) VALUES (?, 'EV', 'x')", name)
    (root / ".ralph/recipes").mkdir(exist_ok=True)
    (root / f"file{IN_NAMES}.txt").write_text(EVIL, encoding="utf-8")
    (root / ".ralph/learnings.txt").write_text(f"- {EVIL}\n", encoding="utf-8")
    git(root, "checkout", "--quiet", "-b", "work\u009b\u202e")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"m{IN_NAMES}")
    (root / f"file{IN_NAMES}.txt").write_text("changed", encoding="utf-8")
    (root / f"new{IN_NAMES}.txt").write_text(EVIL, encoding="utf-8")
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    copy = tmp_path / f"in{IN_NAMES}" / "p"
    copy.parent.mkdir()
    shutil.copytree(model, copy, symlinks=True)
    return recorded(copy)


def create_files(words: Sequence[str], root: Path) -> tuple[str, str]:
    done = ralphgen(*words, cwd=root, stdin="")
    assert "this is a bug" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def typed(words: Sequence[str], root: Path) -> str:
    """Return the screen of a command in a terminal, whose only input is its end."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "EDITOR": "true"}
    environment.pop("COLUMNS", None)
    process = warm_process()
    with Path(os.devnull).open("rb") as nothing:
        process.start([str(RALPHGEN), *words], root, environment, [nothing.fileno(), slave, slave])
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        shown += part
    os.close(master)
    process.end()
    return shown.decode(errors="surrogateescape")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("board", "--export", "-", "--sessions"),
    ("trust",),
    ("session", "list"),
    ("worker", "list"),
    ("worker", "revoke", EVIL),
    ("worker", "add", EVIL),
    ("loop", "--server", EVIL, "--worktrees"),
    ("session", "end", EVIL),
    ("session", "create", "task_execution", "--task", "1"),
    ("session", "create", EVIL),
    ("connect", "claude", "--print"),
    ("connect", "codex", "--print"),
    ("launch", "task_execution", "--task", "1", "--agent", "mine"),
    ("launch", "task_execution", "--task", "1", "--agent", "mine", "--raw"),
    ("launch", "task_execution", "--task", "1", "--agent", "mine", "--dry-run"),
    ("launch", "--help"),
    ("session", "brief", "task_execution", "--task", "1"),
    ("session", "brief", "task_execution", "--task", "1", "--json"),
    ("export",),
    ("import", f"file{IN_NAMES}.txt"),
    ("sync",),
    ("sync", "--dry-run", "--ours"),
    ("log",),
    ("log", "--json"),
    ("log", EVIL),
    ("merges",),
    ("merges", "--json"),
    ("merges", "run"),
    ("merges", "drop", "1"),
    ("merges", EVIL),
    ("gate",),
    ("gate", "--task", "1", "--enqueue"),
    ("gate", "--task", "1", "--base", EVIL),
    ("notify", EVIL),
    ("undo", EVIL),
    ("db", "backup"),
    ("loop", "--dry-run"),
    ("loop", "--agent", "mine", "--max-tasks", "1"),
    ("loop", "--agent", "mine", "--max-tasks", "1", "--json"),
    ("loop", "--agent", "mine", "--max-tasks", "1", "--worktrees"),
    ("connect", "claude", "--skills", "--subagents", "--plugin", "--agents-md"),
    ("init", "."),
    ("regen", "."),
    ("regen", f"--no{IN_NAMES}"),
    ("check", "."),
    ("inspect", "."),
    ("inspect", ".", "--json"),
    ("tools",),
    ("tools", "list", "--json"),
    ("tools", "add", EVIL),
    ("doctor", "."),
    ("status",),
    ("status", "--json"),
    ("schema",),
    ("serve", EVIL),
    ("call", "ralph:get_task", "id=1"),
    ("call", "ralph:get_task", f"id={IN_NAMES}"),
    ("call", f"ralph:{IN_NAMES}"),
    ("call", "ralph:list_features"),
    ("call", "ralph:run_checks", "task=1"),
    ("connect", "claude", "--skills", "--print"),
    ("db", "indexes"),
    ("upgrade", ".", "--yes"),
    ("db", "ledger", "status"),
    ("db", "ledger", EVIL),
    ("tools", "diff"),
    ("task", "add", EVIL, "--feature", "auth", "--discipline", "backend"),
    ("task", "list"),
    ("task", "list", "--json"),
    ("task", "list", "--questions"),
    ("task", "answer", "1", EVIL),
    ("task", "accept", "1"),
    ("task", "send-back", "1", EVIL),
    ("task", "move", "1", "1"),
    ("task", "next"),
    ("task", "show", "1"),
    ("task", "show", "1", "--json"),
    ("task", "edit", "1", "--title", f"{EVIL}2"),
    ("task", "status", "1", "blocked", "--comment", EVIL),
    ("task", "comment", "1", EVIL),
    ("task", "check", "1"),
    ("task", "check", "1", "--json"),
    ("task", "delete", "1", "--yes"),
    ("task", EVIL),
    ("feature", "list"),
    ("feature", "show", "auth"),
    ("feature", "show", EVIL),
    ("discipline", "list"),
    ("discipline", "show", "backend"),
    ("discipline", "show", "backend", "--json"),
    ("dela", "list"),
    ("dela", "deny", EVIL),
    ("board", EVIL),
    (EVIL,),
    ("--help",),
)


def label(words: Sequence[str]) -> str:
    return " ".join(words).encode("unicode_escape").decode()[:60]


def test_every_command_is_tried() -> None:
    assert {*TABLE} - {"project"} <= {words[0] for words in COMMANDS}


@pytest.mark.thorough
@pytest.mark.parametrize("words", COMMANDS, ids=label)
def test_no_command_steers_a_pipe(root: Path, words: tuple[str, ...]) -> None:
    for text in create_files(words, root):
        assert not STEERS.search(text), STEERS.sub("§", text)


@pytest.mark.thorough
@pytest.mark.parametrize("words", COMMANDS, ids=label)
def test_no_command_steers_a_terminal(root: Path, words: tuple[str, ...]) -> None:
    screen = FROM_RICH.sub("", typed(words, root))

    assert not STEERS.search(screen), STEERS.sub("§", screen)


@pytest.mark.thorough
def test_colours_reach_a_terminal(root: Path) -> None:
    for words in (["task", "list"],):
        assert "\x1b[" in typed(words, root)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("call", "ralph:get_task", "id=1"), ("title",)),
        (("task", "show", "1", "--json"), ("title",)),
        (("task", "list", "--json"), ("tasks", 0, "title")),
        (("session", "brief", "task_execution", "--task", "1", "--json"), ()),
        (("loop", "--dry-run", "--json"), ("tasks", 0, "title")),
        (("log", "--json"), ()),
        (("session", "list", "--json"), ()),
    ],
    ids=str,
)
def test_json_holds_the_values_of_the_project(
    root: Path, words: tuple[str, ...], keys: tuple[str | int, ...]
) -> None:
    for text in (ralphgen(*words, cwd=root).stdout, typed(words, root)):
        value = json.loads(text)
        for key in keys:
            value = value[key]
        assert not keys or value == EVIL


def test_lines_of_json_hold_the_values_of_the_project(root: Path) -> None:
    done = ralphgen("export", cwd=root)
    rows = [json.loads(line) for line in done.stdout.split("\n") if line]
    launched = ralphgen(
        *("launch", "task_execution", "--task", "1", "--agent", "mine", "--raw"), cwd=root
    )
    events = [json.loads(line) for line in launched.stdout.split("\n") if line]

    assert EVIL in [one["row"].get("title") for one in rows]
    assert EVIL in [one.get("text") for one in events]


@pytest.mark.parametrize("words", [("serve", "ralph"), ("call", "ralph:get_task", "id=1")])
def test_refused_start_of_a_server_steers_nothing(root: Path, words: tuple[str, ...]) -> None:
    edited = root / ".ralph/mcp/policy.py"
    edited.write_text(f"{edited.read_text(encoding='utf-8')}# {EVIL}", encoding="utf-8")
    done = ralphgen(*words, cwd=root)

    assert 0 != done.returncode
    assert not STEERS.search(done.stdout + done.stderr), done.stderr


def test_a_crash_with_a_hostile_name_steers_nothing(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").unlink()
    (root / ".ralph/ralphgen.toml").mkdir()
    for more in ({}, {"RALPHGEN_TRACEBACK": "1"}):
        done = ralphgen("check", ".", cwd=root, more=more)
        assert not STEERS.search(done.stdout + done.stderr)
