"""The tutorial is true: its commands, typed one after the other, print the output on the page."""

from pathlib import Path

import pytest
from typed_pages import type_page

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
LAST = "## 8. With Claude Code"  # needs a model; other tests look these commands up


def test_every_command_prints_the_output_of_the_tutorial(tmp_path: Path) -> None:
    typed = PAGE.read_text(encoding="utf-8").partition(LAST)[0]

    assert type_page(typed, tmp_path, tmp_path) > 15
