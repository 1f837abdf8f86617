"""A generated column that is computed from a hidden column must be hidden too."""

import sqlite3
from pathlib import Path

import pytest
from driving import create_project, quiet
from engines import project_on

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError

ONE = '[schema]\nhide = ["tasks.secret"]\n'
BOTH = '[schema]\nhide = ["tasks.secret", "tasks.digest"]\n'
REFUSED = '"tasks.digest" is computed from "tasks.secret", which is hidden'


@pytest.mark.thorough
@pytest.mark.parametrize(
    "expression",
    [
        "digest TEXT GENERATED ALWAYS AS (substr(secret, 1, 9)) VIRTUAL",
        'digest INTEGER AS (length(title) + length("SECRET"))',
        "digest INTEGER CHECK (1) AS (CASE WHEN [secret] = 'x' THEN 1 ELSE 0 END)",
    ],
)
def test_a_generated_column_of_sqlite_is_refused_until_hidden(
    tmp_path: Path, expression: str
) -> None:
    root = create_project(tmp_path / "p", "ALTER TABLE tasks ADD COLUMN secret TEXT")
    with sqlite3.connect(root / ".ralph/db/ralph.db") as connection:
        connection.execute(f"ALTER TABLE tasks ADD COLUMN {expression}")
    connection.close()
    settings = root / ".ralph/ralphgen.toml"
    settings.write_text(ONE, encoding="utf-8")
    with pytest.raises(ProjectError, match=REFUSED):
        regenerate(root, force=False, say=quiet)
    settings.write_text(BOTH, encoding="utf-8")
    regenerate(root, force=False, say=quiet)


def test_a_generated_column_of_visible_columns_remains_visible(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", "ALTER TABLE tasks ADD COLUMN secret TEXT")
    with sqlite3.connect(root / ".ralph/db/ralph.db") as connection:
        connection.execute(
            "ALTER TABLE tasks ADD COLUMN digest TEXT AS (title || 'secret') VIRTUAL"
        )
    connection.close()
    (root / ".ralph/ralphgen.toml").write_text(ONE, encoding="utf-8")
    regenerate(root, force=False, say=quiet)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_generated_column_of_postgresql_is_refused_until_hidden(tmp_path: Path) -> None:
    statements = (
        "ALTER TABLE tasks ADD COLUMN secret TEXT",
        "ALTER TABLE tasks ADD COLUMN digest TEXT GENERATED ALWAYS AS (upper(secret)) STORED",
        "ALTER TABLE tasks ADD COLUMN loud TEXT GENERATED ALWAYS AS (upper(title)) STORED",
    )
    with project_on("postgresql", tmp_path / "p", *statements) as root:
        settings = root / ".ralph/ralphgen.toml"
        before = settings.read_text(encoding="utf-8")
        settings.write_text(before + ONE, encoding="utf-8")
        with pytest.raises(ProjectError, match=REFUSED):
            regenerate(root, force=False, say=quiet)
        settings.write_text(before + BOTH, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
