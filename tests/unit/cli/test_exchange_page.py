"""The commands of docs/exchange.md, typed one after the other; the tools' own are on moving.md."""

import re
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/exchange.md"


def test_each_command_does_as_the_text_around_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    shutil.copytree(root, tmp_path / "other")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    for line in lines:
        done = ralphgen(*line.split()[1:], cwd=root)
        assert 0 == done.returncode, f"{line}\n{done.stderr}"

    assert 4 == len(lines)
