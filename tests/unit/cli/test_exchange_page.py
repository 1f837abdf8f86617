"""The commands of docs/exchange.md, typed one after the other beside the files of other tools."""

import re
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, query

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/exchange.md"
PEERS = Path(__file__).parents[1] / "exchange/peers"


def test_each_command_does_what_stands_around_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    for peer, place in (("task-master", ""), ("beads", ""), ("backlog", "backlog")):
        shutil.copytree(PEERS / peer, root / place, dirs_exist_ok=True)
    shutil.copytree(PEERS / "spec-kit/specs", root / "specs")
    shutil.copytree(root, tmp_path / "other")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    for line in lines:
        done = ralphgen(*line.split()[1:], cwd=root)
        assert 0 == done.returncode, f"{line}\n{done.stderr}"

    assert 8 == len(lines)
    (tags,) = zip(*query(root, "SELECT tags FROM tasks WHERE id > 2"), strict=True)
    for peer in ("task-master", "beads", "backlog", "spec-kit"):
        assert any(f'"{peer}:' in tag for tag in tags), peer
