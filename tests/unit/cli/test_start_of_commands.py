"""Commands import their modules when they run; summaries, overview and errors are plain."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen
from driving import create_project

from ralphgen.terminal.console import COMMANDS, OVERVIEW, PANELS

pytestmark = pytest.mark.slow
PRINTING = {
    "ralphgen",
    "ralphgen.cli",
    "ralphgen.cli.main",
    "ralphgen.errors",
    "ralphgen.runtime",
    "ralphgen.runtime.errors",
    "ralphgen.terminal",
    "ralphgen.terminal.console",
}


def loaded_by(*arguments: str) -> set[str]:
    """The modules of third parties and of ralphgen that a command imports."""
    command = [sys.executable, "-X", "importtime", str(RALPHGEN), *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    return {
        name
        for name in names
        if name.partition(".")[0] in ("ralphgen", "typer", "rich", "pydantic", "tomlkit")
    }


def test_version_and_overview_load_only_what_prints() -> None:
    assert PRINTING == loaded_by("--version") == loaded_by()


def test_help_loads_no_module_of_a_command() -> None:
    modules = {entry.module for entry in COMMANDS.values()}

    assert set() == modules & loaded_by("--help")


@pytest.mark.thorough
def test_a_command_on_rows_loads_no_pydantic(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    ralphgen("task", "list", "-C", root)  # compares settings and server, once

    assert not [
        name
        for name in loaded_by("task", "show", "1", "-C", str(root))
        if name.startswith("pydantic")
    ]
    assert "tomlkit" not in loaded_by("status", "-C", str(root))


def test_bare_ralphgen_prints_the_overview(tmp_path: Path) -> None:
    done = ralphgen(cwd=tmp_path)

    assert (0, OVERVIEW, "") == (done.returncode, done.stdout, done.stderr)


def test_help_shows_six_panels_and_one_line_for_each_command() -> None:
    lines = ralphgen("--help").stdout.splitlines()

    assert ["Get started", "Plan", "Run agents", "Review", "Maintain", "Advanced"] == [*PANELS]
    assert "init" == next(iter(PANELS["Get started"]))
    assert all(len(line) <= 80 for line in lines)
    for panel, entries in PANELS.items():
        at = lines.index(f"{panel}:")
        shown = [f"  {name:<10}  {entry.summary}" for name, entry in entries.items()]
        assert shown == lines[at + 1 : at + 1 + len(shown)]


def test_help_shows_no_type_for_flags() -> None:
    text = ralphgen("board", "--help").stdout

    assert "  --no-open " in text
    assert "<" not in text
