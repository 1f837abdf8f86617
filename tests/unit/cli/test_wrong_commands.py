"""Wrong command lines: a case a line in `wrong_commands.txt`, with its exit code and error."""

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ralphgen, ran
from driving import create_project, quiet
from lanes import shortened

from ralphgen.emit.workflows import install_environment

pytestmark = pytest.mark.slow

CONFIG = 'kits = ["ralph", "dela"]\n'
LINES = Path(__file__).with_name("wrong_commands.txt").read_text(encoding="utf-8").splitlines()
FIRST = {line.split(" | ")[1].split()[0]: line for line in reversed(LINES)}  # of each command
INNER = ('argument "', "filter_", "[0]", "this tool")  # words of tools


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("wrong") / "p", config=CONFIG)
    ran("db", "ledger", "on", "--yes", cwd=root)
    ran("task", "list", cwd=root)  # compares settings and server, once
    install_environment(root, say=quiet)
    return root


def content(root: Path) -> tuple[list[str], list[str]]:
    """The rows of the database, and the project's files."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
        rows = [*connection.iterdump()]
    return rows, sorted(str(path) for path in root.rglob("*") if ".ralph/db" not in str(path))


@pytest.mark.parametrize(
    "line", shortened(LINES, *FIRST.values()), ids=lambda line: line.split(" | ")[1]
)
def test_a_wrong_command_is_refused_with_a_hint_and_changes_nothing(root: Path, line: str) -> None:
    kind, words, *parts = line.split(" | ")
    more = {"EDITOR": "", "VISUAL": ""} | ({"RALPHGEN_SESSION": "x"} if "agent" in kind else {})
    before = content(root)
    done = ralphgen(*shlex.split(words), cwd=root, more=more)
    said = done.stderr.partition("error: ")[2]

    assert (int(kind[0]), "") == (done.returncode, done.stdout), done.stderr
    assert 1 == done.stderr.count("error: ") >= done.stderr.count("hint: ")
    assert [] == [part for part in parts if part.replace("\\n", "\n") not in said], said
    assert words.startswith(("call", "serve")) or not [word for word in INNER if word in said]
    assert before == content(root)
