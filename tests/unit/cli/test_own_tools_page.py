"""The file, the settings and the commands of docs/own-tools.md, typed one after the other."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/own-tools.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_each_command_does_what_stands_around_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (root / ".ralph/tools").mkdir()
    (root / ".ralph/tools/notes.py").write_text(block("python"), encoding="utf-8")
    (root / ".ralph/ralphgen.toml").write_text(block("toml"), encoding="utf-8")
    lines = [shlex.split(line, comments=True)[1:] for line in block("sh").splitlines()]
    said = []
    for words in lines:
        done = ralphgen(*words, *(["--no-install"] if words == ["regen"] else []), cwd=root)
        assert 0 == done.returncode, f"{words}\n{done.stderr}"
        said.append(done.stdout)

    assert '{"kind":"fix","done":[]}\n' == said[1]
    assert "done\n" == said[2]
