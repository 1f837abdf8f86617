"""While a developer changes the schema and the settings, the server is written along."""

from collections.abc import Callable
from pathlib import Path

import pytest
from driving import create_project, query

from ralphgen.emit.workflows import watch

pytestmark = pytest.mark.slow  # makes a project


class StoppedError(Exception):
    """The developer has stopped it."""


def watched(root: Path, *steps: Callable[[], object]) -> list[str]:
    """Return its messages during these steps, one at each pause."""
    said: list[str] = []
    left = [*steps]

    def wait(_seconds: float) -> None:
        said.append("waits")
        if not left:
            raise StoppedError
        left.pop(0)()

    with pytest.raises(StoppedError):
        watch(root, said.append, wait)
    return said


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p")


def test_a_new_column_is_written_and_nothing_while_nothing_changes(root: Path) -> None:
    facts = root / ".ralph/mcp/project.json"
    said = watched(
        root, lambda: query(root, "ALTER TABLE tasks ADD COLUMN severity TEXT"), lambda: None
    )

    assert '"severity"' in facts.read_text(encoding="utf-8")
    assert ["waits", "waits"] == said[-2:]


def test_a_failed_write_is_reported_and_retried_after_the_next_change(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    said = watched(
        root,
        lambda: config.write_text("kit = 3\n", encoding="utf-8"),
        lambda: config.write_text("[database\n", encoding="utf-8"),
        lambda: config.write_text("structured_output = true\n", encoding="utf-8"),
    )
    facts = (root / ".ralph/mcp/project.json").read_text(encoding="utf-8")

    assert any('unknown key "kit"' in line for line in said)
    assert '"structured_output": true' in facts


def test_files_that_were_edited_by_hand_remain(root: Path) -> None:
    server = root / ".ralph/mcp/server.py"
    server.write_text("# mine\n", encoding="utf-8")
    said = watched(root, lambda: query(root, "ALTER TABLE tasks ADD COLUMN severity TEXT"))

    assert "# mine\n" == server.read_text(encoding="utf-8")
    assert any("edited" in line for line in said)
