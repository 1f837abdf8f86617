"""Writers of the config wait for each other, so that no change is lost."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE, RALPHGEN
from driving import create_project

from ralphgen.project.root import CONFIG

pytestmark = pytest.mark.slow

TABLES = "CREATE TABLE risks (id INTEGER PRIMARY KEY); CREATE TABLE bets (id INTEGER PRIMARY KEY);"
SETTINGS = 'kits = ["ralph"]\n\n[http]\nurl = "https://ralph.example/mcp"\n'
OTHER = """
import sys
from pathlib import Path

from ralphgen.files import put
from ralphgen.project.config import config_lock

root = Path(sys.argv[1])
path = root / sys.argv[2]
with config_lock(root):
    text = path.read_text(encoding="utf-8")
    print("held", flush=True)
    sys.stdin.read()
    put(path, text + sys.argv[3])
"""
ADDED = '\n[disciplines.backend]\ndisable = ["delete_task"]\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path / "p", TABLES)
    (root / CONFIG).write_text(SETTINGS, encoding="utf-8")
    return root


@contextmanager
def another(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has read the config, and writes its addition once its input ends."""
    words = [sys.executable, "-c", OTHER, str(root), CONFIG, ADDED]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, encoding="utf-8") as process:
        assert process.stdout is not None
        assert "held\n" == process.stdout.readline()
        yield process


def started(root: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [RALPHGEN, *words], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


COMMANDS = (
    ("tools", "add", "risks"),
    ("tools", "add", "bets"),
    ("init", "--no-install", "--kit", "dela"),
    ("regen", "--no-install"),
)


def config(root: Path) -> Mapping[str, Any]:
    return tomllib.loads((root / CONFIG).read_text(encoding="utf-8"))


def test_no_one_writes_while_another_does(root: Path) -> None:
    with another(root) as other:
        commands = [started(root, *words) for words in COMMANDS]
        told = [command.communicate(timeout=PATIENCE)[1] for command in commands]
        between = (root / CONFIG).read_text(encoding="utf-8")
        other.communicate("")

    assert SETTINGS == between
    for command, said in zip(commands, told, strict=True):
        assert (1, 1) == (command.returncode, said.count("another process has been writing")), said
    assert ["delete_task"] == config(root)["disciplines"]["backend"]["disable"]


def test_all_concurrent_writes_are_kept(root: Path) -> None:
    with another(root) as other:
        commands = [started(root, *words) for words in COMMANDS]
        other.communicate("")
        told = [command.communicate(timeout=PATIENCE)[1] for command in commands]
    found = config(root)

    assert [0] * len(COMMANDS) == [command.returncode for command in commands], told
    assert ["delete_task"] == found["disciplines"]["backend"]["disable"]
    assert {"risks", "bets"} == {*found["tables"]}
    assert ["ralph", "dela"] == found["kits"]
    assert found["http"]["id"]
