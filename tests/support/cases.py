"""The projects of `fixtures/`: text on disk, copied as real projects to temporary folders."""

import shutil
from pathlib import Path

from driving import SCHEMAS, create_database

FIXTURES = SCHEMAS.parent
INIT_SCHEMA = FIXTURES.parent / "ralphgen" / "emit" / "schema.sql"
MARK = "-- schema: "
"""Begins the first line of a `database.sql` that goes on where a schema ends."""


def case_names(*, failing: bool) -> list[str]:
    """Return the sorted fixtures that regen refuses, or those that it writes a server for."""
    folders = (path.parent for path in FIXTURES.glob("*/project"))
    return sorted(path.name for path in folders if (path / "stderr.txt").exists() == failing)


def lay_down(case: str, root: Path, *statements: str) -> Path:
    """The project of a case in `root`, without a server; `statements` change its database."""
    source = FIXTURES / case / "project"
    text = (source / "database.sql").read_text(encoding="utf-8")
    create_database(root, _schema(text), text, *statements)
    ignored = shutil.ignore_patterns("database.sql")
    return Path(shutil.copytree(source, root, dirs_exist_ok=True, ignore=ignored))


def _schema(text: str) -> str:
    """The schema that the first line names: "init", or a file of fixtures/schemas; else none."""
    first, _, _ = text.partition("\n")
    name = first.removeprefix(MARK).strip()
    if name == first.strip():
        return ""
    path = INIT_SCHEMA if name == "init" else SCHEMAS / f"{name}.sql"
    return path.read_text(encoding="utf-8")
