"""Inspection takes the database's facts from the database, or from the file that it committed."""

from pathlib import Path

import pytest
from driving import create_project

from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.project.inspect import FACTS, inspect_project
from ralphgen.project.root import DATABASE

OVERRIDE = """
ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;
UPDATE disciplines SET mcp_tool_overrides = '{"additional_disabled": ["get_task"]}'
    WHERE name = 'backend';
"""


def test_a_clone_without_the_database_has_the_same_facts(tmp_path: Path) -> None:
    root = create_project(tmp_path, OVERRIDE)
    with_database = inspect_project(root, KITS)
    (root / DATABASE).unlink()
    without = inspect_project(root, KITS)

    assert (("backend", ("get_task",)),) == tuple(
        (one.discipline, one.entries) for one in without.stored_removals
    )
    assert with_database.schema == without.schema
    assert with_database.stored_removals == without.stored_removals
    warning = f"no database at {DATABASE}; using the schema recorded in {FACTS}"
    assert ((), (warning,)) == (with_database.warnings, without.warnings)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": {"tasks": [1]}}'])
def test_unreadable_facts_are_a_sentence(tmp_path: Path, text: str) -> None:
    root = create_project(tmp_path)
    (root / DATABASE).unlink()
    (root / FACTS).write_text(text, encoding="utf-8")
    with pytest.raises(ProjectError, match=r"project\.json cannot be read .* there is no"):
        inspect_project(root, KITS)


def test_text_that_is_not_utf8_does_not_end_the_inspection(tmp_path: Path) -> None:
    odd = "INSERT INTO disciplines (name, display_name, acronym, icon, color) VALUES "
    root = create_project(tmp_path, f"{odd}(CAST(x'ff41' AS TEXT), 'Odd', 'ODDD', 'X', '#000000')")

    assert () == inspect_project(root, KITS).warnings
