"""The pages on adapting a project are true: their commands run, and print the shown output."""

import re
import shutil
from pathlib import Path

import pytest
from command_line import initialized
from typed_pages import type_page

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DOCS = Path(__file__).parents[3] / "docs"
PEERS = Path(__file__).parents[1] / "exchange/peers"
IMPORT = re.split(r"(?m)^(?=## )", (DOCS / "import.md").read_text(encoding="utf-8"))
FOLDERS = {"task-master": "", "beads": "", "Backlog.md": "backlog", "spec-kit": ""}


@pytest.mark.parametrize(
    "name", ["tables", "queries", "custom-tools", "migrations", "plugin", "tasks-in-git"]
)
def test_every_block_of_a_page_runs(name: str, tmp_path: Path) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")

    assert type_page(page, tmp_path, tmp_path) > 1


@pytest.mark.parametrize("tool", FOLDERS)
def test_tasks_of_another_tool_are_imported_as_the_page_shows(tool: str, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(PEERS / tool.lower().removesuffix(".md"), project / FOLDERS[tool])
    (section,) = (one for one in IMPORT if one.startswith(f"## From {tool}\n"))

    assert type_page(IMPORT[0] + section, tmp_path, project) >= 4


def test_an_export_is_merged_as_the_page_shows(tmp_path: Path) -> None:
    sections = [one for one in IMPORT if one.startswith(("## Export", "## Merge"))]

    assert 2 == type_page("".join(sections), tmp_path, initialized(tmp_path / "shop"))
