"""The commands of docs/moving.md and docs/worktrees.md print the output on these pages."""

import re
import shutil
from pathlib import Path

import pytest
from typed_pages import type_page

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[3] / "docs"
PEERS = Path(__file__).parents[1] / "exchange/peers"
FIRST, *SECTIONS = re.findall(
    r"(?ms)^(## .*?)(?=^## |\Z)", (DOCS / "moving.md").read_text(encoding="utf-8")
)
FROM = {text.partition("\n")[0].removeprefix("## From "): text for text in SECTIONS}
FOLDERS = {"task-master": "", "beads": "", "Backlog.md": "backlog", "spec-kit": ""}


@pytest.mark.parametrize("tool", FOLDERS)
def test_tasks_of_another_tool_are_moved_as_the_page_shows(tool: str, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(PEERS / tool.lower().removesuffix(".md"), project / FOLDERS[tool])

    assert type_page(FIRST + FROM[tool], tmp_path, project) >= 4


def test_two_agents_work_at_once_as_the_page_shows(tmp_path: Path) -> None:
    page = (DOCS / "worktrees.md").read_text(encoding="utf-8")

    assert 5 == type_page(page.partition("## Requirements")[0], tmp_path, tmp_path)
