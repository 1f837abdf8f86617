"""The annotations of the tool load: whether it can write and replace files."""

from pathlib import Path
from typing import Any

from rye_projects import Rye, rye_project, serving, session

READS = {"readOnlyHint": True, "openWorldHint": False}
REPLACES = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


def annotations(rye: Rye) -> dict[str, Any]:
    (load,) = (tool for tool in rye.driver.tools() if tool["name"] == "load")
    found: dict[str, Any] = load["annotations"]
    return found


def test_a_session_that_copies_nothing_is_told_that_load_only_reads(tmp_path: Path) -> None:
    with serving(tmp_path, "interactive") as rye:
        assert READS == annotations(rye)


def test_who_may_copy_is_told_that_load_may_replace_a_file(tmp_path: Path) -> None:
    with serving(tmp_path, "task_execution") as rye:
        assert REPLACES == annotations(rye)


def test_a_context_that_takes_the_copying_away_leaves_a_load_that_reads(tmp_path: Path) -> None:
    root = rye_project(tmp_path / "project")
    kept = {"rye": {"load": ["item_type", "item_id", "project_path", "overwrite"]}}
    with session(tmp_path, root, narrowed_arguments=kept) as rye:
        assert READS == annotations(rye)
