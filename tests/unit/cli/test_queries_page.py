"""The files and the commands of docs/queries.md, written and typed one after the other."""

from pathlib import Path

import pytest
from driving import create_project
from typed_pages import block, said_by_commands

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/queries.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_each_command_does_as_the_text_around_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (root / ".ralph/queries").mkdir()
    (root / ".ralph/queries/overdue.sql").write_text(block(PAGE, "sql"), encoding="utf-8")
    (root / ".ralph/ralphgen.toml").write_text(block(PAGE, "toml"), encoding="utf-8")
    said = said_by_commands(PAGE, root)

    assert '{"rows":[]}\n' == said[1]
    assert '{"row":{"id":1,"status":"pending"}}\n' == said[2]
