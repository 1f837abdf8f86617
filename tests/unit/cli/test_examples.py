"""The projects of examples/: their pages' commands are typed, and clients call the servers."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen
from driving import Driver, connected
from typed_pages import type_page

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))


def create_example(name: str, folder: Path, *, tasks: bool = True) -> Path:
    """Return a copy of the example after typing the commands on its page."""
    root = folder / name
    shutil.copytree(EXAMPLES / name, root)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)  # noqa: S607
    page = (root / "README.md").read_text(encoding="utf-8")

    assert type_page(page, folder, root) > (5 if tasks else 4)
    assert 0 == ralphgen("check", cwd=root).returncode
    return root


def test_they_are_three_and_the_page_of_all_leads_to_each() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert 3 == len(NAMES)
    assert all(f"]({name}/README.md)" in page for name in NAMES)


def test_tasks_are_done_by_a_loop_once_their_check_has_passed(tmp_path: Path) -> None:
    root = create_example("checked-tasks", tmp_path)
    with connected(root) as person:
        task = person.call("get_task", id=2)

        assert ("done", "hours") == (task["status"], task["effort"])
        refused = person.refusal("create_task", **NEW, effort="weeks")
        assert '"hours", "days"' in refused


def test_a_library_has_tools_on_its_own_tables_and_none_that_is_not_offered(tmp_path: Path) -> None:
    root = create_example("library", tmp_path)
    with connected(root, "desk", kit="tables", **DESK) as desk:
        assert "978-3" == only(desk.call("list_books", search="owl")["books"])["isbn"]
        assert "owes_cents" not in str(desk.tools())
        assert {"create_book", "get_loan"}.isdisjoint(desk.names())
        assert [] == desk.call("overdue", day="2026-02-01")["rows"]  # since it was brought back


def test_a_site_is_served_by_three_kits(tmp_path: Path) -> None:
    root = create_example("site", tmp_path)
    with connected(root, kit="dela") as person:
        targets = person.call("list_tasks")["tasks"]
        assert {"build", "check", "clean"} <= {one["unique_name"] for one in targets}
    with connected(root, kit="specum") as person:
        assert "| contact (current) | research |" in call_text(person, "ralph_status")
    with connected(root) as person:
        assert 1 == person.call("list_tasks")["total"]


NEW = {"feature": "greetings", "discipline": "python", "title": "Shout"}
DESK: dict[str, Any] = {"base": "manual"}


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The one row that there is."""
    (row,) = rows
    return row


def call_text(client: Driver, tool: str) -> str:
    """The text of an answer that must be no failure."""
    failed, text = client.ask(tool)
    assert not failed, text
    return text
