"""Lists the tables and views of a project's database that have no tools, and gives them some."""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.tables.columns import snake
from ralphgen.output.files import put
from ralphgen.project.config_lock import config_lock
from ralphgen.project.connection import open_database
from ralphgen.project.kit import Finding
from ralphgen.project.model import Table
from ralphgen.project.root import CONFIG
from ralphgen.project.schema import read_facts, relation_names, schema_from_facts
from ralphgen.project.served_tables import INTERNAL, KEY, possible
from ralphgen.project.toml_edit import edited
from ralphgen.runtime.database.schema import TABLES, fold
from ralphgen.suggestion import suggestion

LONGEST = 50  # characters of a noun
HOST = "ralph"  # whose server has tools on the usual tables already


def find_tables(root: Path, kit: str) -> Finding:
    """Return the tables that could be served, for the kit that would; nothing where it is off."""
    config = _config(root)
    if kit not in config.get("kits", [HOST]):
        return Finding("", {})
    try:
        found = unserved(root, config)
    except ProjectError:  # there is no database here, and its facts come from elsewhere
        return Finding("", {})
    rows: list[Mapping[str, Any]] = [
        {
            "table": table.name,
            "tools": ", ".join(possible(table)),
            "command": f"ralphgen tables add {shlex.quote(table.name)}",
        }
        for table in found
    ]
    said = f"{len(rows)} more {'table' if len(rows) == 1 else 'tables'} that could have tools"
    return Finding(said if rows else "", {"tables": rows})


def unserved(root: Path, config: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables and views of the database that no tool works on, sorted by name."""
    served = {fold(name) for name in config.get(KEY, {})}
    with open_database(root) as connection:
        names = [
            name
            for name in relation_names(connection)
            if not fold(name).startswith(INTERNAL) and fold(name) not in served
        ]
        if HOST in config.get("kits", [HOST]):
            names = [name for name in names if fold(name) not in TABLES]
        facts = read_facts(connection, names)
    return tuple(table for table in schema_from_facts(facts).tables if table.name in names)


def add_tables(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Write into the config that tables have tools; return each, its noun and the tools.

    Raises `UsageError` for a table that there is not, or that has tools already, and `ProjectError`
    where the config cannot be changed.
    """
    with config_lock(root):
        return _added(root, names)


def _added(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Add the tables where nobody else writes the config."""
    config = _config(root)
    known = {fold(table.name): table for table in unserved(root, config)}
    for name in names:
        if fold(name) in map(fold, config.get(KEY, {})):
            raise UsageError(f'"{name}" has tools already', f"see [{KEY}] in {CONFIG}")
        if fold(name) not in known:
            listed = (table.name for table in known.values())
            text = f'the database has no table "{name}" that could have tools'
            raise UsageError(text, suggestion(name, listed, "the tables"))
    added = [known[fold(name)] for name in dict.fromkeys(names)]
    changes = [((KEY, table.name, "noun"), noun_of(table)) for table in added]
    path = root / CONFIG
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        put(path, edited(text, changes))
    except ValueError as error:
        raise ProjectError(f"{CONFIG} cannot be changed: {error}", "write it by hand") from error
    return [(table.name, noun_of(table), possible(table)) for table in added]


def noun_of(table: Table) -> str:
    """Return what one row of a table may be called: its name without the letter of a plural."""
    name = snake(table.name)[:LONGEST]
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ss", "ss"), ("s", "")):
        if name.endswith(plural) and len(name) > len(plural) + 1:
            return f"{name.removesuffix(plural)}{singular}"
    return name


def _config(root: Path) -> dict[str, Any]:
    """Return the config as it is written; `read_config` says what is wrong with it."""
    try:
        return tomllib.loads((root / CONFIG).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ProjectError(f"{CONFIG} cannot be read: {error}", "fix it") from error
