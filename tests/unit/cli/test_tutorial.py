"""The tutorial is true: its commands are typed in, one after the other, and print what it shows."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
LAST = "## With Claude Code"  # which a test cannot have; the commands there are looked up elsewhere
SHELL = f"""#!{sys.executable}
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.executescript(sys.argv[2])
"""


def typed(page: str) -> Iterator[tuple[str, str | None]]:
    """Yield each command of the page with what it shows, None where it shows nothing."""
    for _, kind, text in re.findall(r"(?ms)^(`{3,})(console|sh)\n(.*?)^\1$", page):
        if kind == "sh":
            yield text, None
            continue
        for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", one)
            assert command is not None
            yield command[0], one[command.end() :]


def test_every_command_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:  # a machine may lack its shell, which people have
        (tmp_path / "sqlite3").write_text(SHELL, encoding="utf-8")
        (tmp_path / "sqlite3").chmod(0o755)
    folders = (str(Path(sys.executable).parent), os.environ["PATH"], str(tmp_path))
    variables = {
        **os.environ,
        "PATH": os.pathsep.join(folders),
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
    }
    place, count = tmp_path, 0
    for command, expected in typed(PAGE.read_text(encoding="utf-8").partition(LAST)[0]):
        script = f"set -e; trap 'pwd > {tmp_path}/place' EXIT\n{command}"
        done = subprocess.run(
            [str(shutil.which("bash")), "-c", script],
            cwd=place,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            check=False,
        )
        said = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
        shown = OutputChecker().check_output(expected or "", said, ELLIPSIS)

        assert shown or expected is None, f"{command}{said}"
        assert expected is not None or 0 == done.returncode, f"{command}{said}"
        place, count = Path((tmp_path / "place").read_text(encoding="utf-8").strip()), count + 1

    assert count > 15
