"""Names come from anywhere: none of them steers a terminal, and none fills it."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from command_line import initialized, ralphgen

pytestmark = pytest.mark.slow

NAME = "\x1b]0;owned\x07\x1b[2J\u202eevil\rok\nralphgen: all is well" + "n" * 100_000
TREACHEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = ("check", "doctor", "inspect", "tools")
MOST = 20_000  # characters that one command prints of a project as small as this


def in_database(root: Path, name: str) -> None:
    overrides = json.dumps({"additional_disabled": [name]})
    column = name.replace('"', '""')
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as database, database:
        database.execute(
            "UPDATE disciplines SET name = ?, mcp_tool_overrides = ? WHERE name = 'testing'",
            (name, overrides),
        )
        database.execute(f'ALTER TABLE tasks ADD COLUMN "{column}" TEXT')


def in_config(root: Path, name: str) -> None:
    spelled = "".join(
        character if character.isalnum() else f"\\u{ord(character):04x}" for character in name
    )
    config = root / ".ralph/ralphgen.toml"
    kept = config.read_text(encoding="utf-8") if config.exists() else ""
    config.write_text(f'{kept}\n"{spelled}" = 1\n', encoding="utf-8")


def on_disk(root: Path, name: str) -> None:
    path = root / ".ralph/mcp" / f"{name[:50].replace('/', '')}.py"
    path.write_text("", encoding="utf-8")
    edited = root / ".ralph/mcp/policy.py"
    edited.write_text(f"{edited.read_text(encoding='utf-8')}# {name}\n", encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("names") / "p", "--no-install")


@pytest.mark.parametrize("place", [in_database, in_config, on_disk])
def test_no_name_steers_or_fills_the_terminal(
    project: Path, tmp_path: Path, place: Callable[[Path, str], None]
) -> None:
    root = shutil.copytree(project, tmp_path / "p")
    place(root, NAME)

    for command in COMMANDS:
        done = ralphgen(command, cwd=root)
        for text in (done.stdout, done.stderr):
            assert not TREACHEROUS.search(text), (command, text)
            assert "\nralphgen: all is well" not in text, command
        diff = done.stdout if command == "check" else ""  # it shows the whole diff
        assert len(done.stdout) - len(diff) + len(done.stderr) < MOST, command
