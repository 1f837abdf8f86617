"""`ralphgen inspect` on a project's items and on files that are not items."""

from pathlib import Path
from typing import Any

import pytest
from cases import FIXTURES, lay_down
from command_line import ralphgen
from rye_projects import directive, knowledge, put, python_tool, yaml_tool

from ralphgen.kits.rye import find_items
from ralphgen.project.model import Finding


def found(root: Path) -> Finding:
    settings: dict[str, Any] = {}
    return find_items(root, settings)


def lay(root: Path, path: str, text: str) -> None:
    put(root / ".ai" / path, text)


def test_a_project_without_items_has_nothing_to_serve(tmp_path: Path) -> None:
    assert Finding("", {"items": []}) == found(tmp_path)


def test_items_are_counted_by_type_and_named_with_what_they_are_for(tmp_path: Path) -> None:
    lay(tmp_path, "directives/demo/greet.md", directive("demo/greet"))
    lay(tmp_path, "tools/demo/say.yaml", yaml_tool("demo/say"))
    lay(tmp_path, "tools/shout.py", python_tool("shout"))
    lay(tmp_path, "knowledge/a/b/c.md", knowledge("a/b/c", description="On letters"))
    told = found(tmp_path)

    assert "1 directive, 2 tools, 1 knowledge entry" == told.summary
    assert () == told.warnings
    assert [
        ("demo/greet", "directive", "What greet is for"),
        ("demo/say", "tool", "What say does"),
        ("shout", "tool", "What shout does"),
        ("a/b/c", "knowledge", "On letters"),
    ] == [tuple(item.values()) for item in told.details["items"]]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("tools/demo/README.txt", "a tool must end in .py or .yaml or .yml"),
        ("directives/greet.yaml", "a directive must end in .md"),
        (
            "knowledge/Big Words.md",
            'its path may contain only lower-case letters, digits, "_" and "-"',
        ),
        ("tools/rye/core/primitives/subprocess.yaml", "its id is reserved for the system"),
        ("tools/demo/say.yml", "another file shadows it, or it is behind a symbolic link"),
    ],
)
def test_a_file_that_is_no_item_is_named_with_the_reason(
    tmp_path: Path, path: str, why: str
) -> None:
    lay(tmp_path, "tools/demo/say.yaml", yaml_tool("demo/say"))
    lay(tmp_path, path, "text\n")
    (warning,) = found(tmp_path).warnings

    assert f".ai/{path}: is not an item: {why}" == warning


def test_what_is_kept_out_by_its_name_is_not_spoken_of(tmp_path: Path) -> None:
    for name in ("_draft.md", ".hidden.md", "__pycache__/a.pyc", ".git/config"):
        lay(tmp_path, f"knowledge/{name}", "text\n")
    lay(tmp_path, "notes/anything.txt", "not in a folder of items\n")

    assert Finding("", {"items": []}) == found(tmp_path)


def test_looking_runs_and_writes_nothing(tmp_path: Path) -> None:
    lay(
        tmp_path, "tools/demo/trap.py", 'open("trap.txt", "w").close()\n' + python_tool("demo/trap")
    )
    before = sorted(tmp_path.rglob("*"))
    found(tmp_path)

    assert before == sorted(tmp_path.rglob("*"))
    assert not Path("trap.txt").exists()


def test_the_command_shows_the_items_of_the_fixture(tmp_path: Path) -> None:
    root = lay_down("rye", tmp_path / "p")
    said = ralphgen("inspect", "-C", root, more={"COLUMNS": "200"}).stdout

    assert "2 directives, 3 tools, 2 knowledge entries" in said
    for item_id in ("demo/greet", "release/notes", "text/shout", "web/weather", "api/retry-limits"):
        assert item_id in said


def test_every_item_of_the_fixture_is_well_formed() -> None:
    assert (
        ".ai/tools/README.txt: is not an item: a tool must end in .py or .yaml or .yml",
    ) == found(FIXTURES / "rye/project").warnings
