"""The pages on adapting a project are true: their commands run, and print the shown output."""

from pathlib import Path

import pytest
from typed_pages import type_page

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["tables", "queries", "custom-tools"])
def test_every_block_of_a_page_runs(name: str, tmp_path: Path) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")

    assert type_page(page, tmp_path, tmp_path) > 1
