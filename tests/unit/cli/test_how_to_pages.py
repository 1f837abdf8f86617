"""The commands of docs/worktrees.md print the output on the page."""

from pathlib import Path

import pytest
from typed_pages import type_page

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[3] / "docs"


def test_two_agents_work_at_once_as_the_page_shows(tmp_path: Path) -> None:
    page = (DOCS / "worktrees.md").read_text(encoding="utf-8")

    assert 5 == type_page(page.partition("## Requirements")[0], tmp_path, tmp_path)
