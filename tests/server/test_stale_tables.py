"""A server with changed tables reports the change and the remedy; the next start does too."""

import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import connected, create_database, create_project, made_here, query, quiet

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

RISKS = (
    "CREATE TABLE risks (id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT)",
    "CREATE VIEW open_risks AS SELECT id, name FROM risks",
)
CONFIG = '[tables.risks]\n[tables.open_risks]\nkey = ["id"]\n'
TOOL = '''
from typing import Any

from ralphgen.tools import Project


def own(project: Project) -> list[Any]:
    """Names."""
    return project.rows("SELECT name FROM risks")
'''


@pytest.fixture(scope="module", params=["ralph", "tables"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A kit, and a project with its server that tests copy."""
    kit, root = request.param, tmp_path_factory.mktemp("stale") / "p"
    config = CONFIG
    if kit == "tables":
        create_database(root, *(f"{one};" for one in RISKS))
        config = f'kits = ["tables"]\n{CONFIG}'
    else:
        create_project(root, *RISKS)
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    (root / ".ralph/tools").mkdir()
    (root / ".ralph/tools/a.py").write_text(TOOL, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return kit, root


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE risks DROP COLUMN owner", 'column "risks.owner" is gone'),
        ("ALTER TABLE risks RENAME TO dangers", 'table "risks" is gone'),
        ("DROP VIEW open_risks", 'table "open_risks" is gone'),
        ("DROP TABLE risks", 'table "open_risks" is gone; table "risks" is gone'),
    ],
)
def test_changed_tables_are_named_with_the_command(
    tmp_path: Path, model: tuple[str, Path], change: str, said: str
) -> None:
    kit, prepared = model
    root = made_here(shutil.copytree(prepared, tmp_path / "p"))
    with connected(root, kit=kit) as server:
        server.call("list_risks")
        query(root, change)
        for tool in ("list_risks", "list_open_risks", "own"):
            assert (
                f"the database's schema changed during this session ({said}): "
                'run "ralphgen regen" and start a new session'
            ) == server.refusal(tool)
    started = ralphgen("call", f"{kit}:list_risks", "--project", root)

    assert 0 != started.returncode
    assert f"does not match this server: {said}" in started.stderr
    assert "Traceback" not in ralphgen("check", root).stderr
