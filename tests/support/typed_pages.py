"""Pages whose examples are typed in a shell, one after the other, and print what they show."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

from command_line import ralphgen

SQLITE = f"""#!{sys.executable}
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.executescript(sys.argv[2] if len(sys.argv) > 2 else sys.stdin.read())
"""


def commands(page: str) -> Iterator[tuple[str, str | None]]:
    """Yield each command of the page with what it shows, None where it shows nothing."""
    for _, kind, text in re.findall(r"(?ms)^(`{3,})(console|sh)\n(.*?)^\1$", page):
        if kind == "sh":
            yield text, None
            continue
        for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", one)
            assert command is not None
            yield command[0], one[command.end() :]


def type_page(page: str, folder: Path, place: Path) -> int:
    """Type the examples of a page in `place`, with `folder` for what a person's machine has.

    Returns how many there were; fails at the first that prints something else than the page shows.
    """
    if shutil.which("sqlite3") is None:  # a machine may lack its shell, which people have
        (folder / "sqlite3").write_text(SQLITE, encoding="utf-8")
        (folder / "sqlite3").chmod(0o755)
    folders = (str(Path(sys.executable).parent), os.environ["PATH"], str(folder))
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RALPH_")}
    variables = {
        **kept,
        "PATH": os.pathsep.join(folders),
        "XDG_CONFIG_HOME": str(folder / "settings"),
        "COLUMNS": "80",
    }
    count = 0
    for command, expected in commands(page):
        script = f"set -e; trap 'pwd > {folder}/place' EXIT\n{command}"
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
        place, count = Path((folder / "place").read_text(encoding="utf-8").strip()), count + 1
    return count


def block(page: str, kind: str) -> str:
    """Return the first block of a page that holds text of this kind, such as TOML."""
    found = re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def said_by_commands(page: str, root: Path) -> list[str]:
    """Run in a project the commands of a page's block of shell, and return what each prints."""
    said = []
    for line in block(page, "sh").splitlines():
        words = shlex.split(line, comments=True)[1:]
        done = ralphgen(*words, *(["--no-install"] if words == ["regen"] else []), cwd=root)
        assert 0 == done.returncode, f"{words}\n{done.stderr}"
        said.append(done.stdout)
    return said
