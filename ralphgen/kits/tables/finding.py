"""Lists the tables and views of a project's database that have no tools, and gives them some."""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError, UsageError, invalid_toml, suggestion
from ralphgen.files import put, whole_text
from ralphgen.kits.tables.columns import snake
from ralphgen.project.config import config_lock
from ralphgen.project.database import nearest_database, open_database
from ralphgen.project.inspect import INTERNAL, KEY, possible
from ralphgen.project.model import Finding, Table
from ralphgen.project.root import CONFIG, database_name, project_home
from ralphgen.project.schema import relation_names, schema_from_facts
from ralphgen.runtime.engine import TABLES, fold

LONGEST = 50  # characters of a noun
# Ends of plural table names and their singulars: the first match counts. An ending without a
# singular is in doubt: movies, statuses and cases, caches and branches.
_ENDINGS = (
    *(
        (f"{stem}ies", f"{stem}y")
        for stem in ("bb", "og", "eg", "it", "quer", "nc", "lic", "tor", "gor", "ntr")
    ),
    *((f"{stem}ies", f"{stem}y") for stem in ("an", "str", "rt", "ar", "il", "ver", "liv")),
    *(("sses", "ss"), ("shes", "sh"), ("tches", "tch"), ("oxes", "ox"), ("exes", "ex")),
    *(("ixes", "ix"), ("rses", "rse"), ("ouses", "ouse"), ("auses", "ause")),
    *((ending, "") for ending in ("ies", "ses", "xes", "zes", "hes", "oes", "ves", "ics")),
    *((ending, "") for ending in ("ss", "us", "is", "as", "os")),
    ("s", ""),
)
_VOWELS = frozenset("aeiouy")
_SINGULAR = frozenset(
    {
        *("aws", "biceps", "chaps", "corps", "diabetes", "dns", "gallows", "goods", "headquarters"),
        *("jeans", "lens", "means", "news", "scissors", "series", "species", "summons", "thanks"),
        *("triceps", "trousers"),
    }
)
HOST = "ralph"  # already has tools on the usual tables


def find_tables(root: Path, kit: str) -> Finding:
    """Return the tables that the kit could serve; empty if the kit is disabled."""
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
            "command": f"ralphgen tools add {shlex.quote(table.name)}",
        }
        for table in found
    ]
    said = f"{len(rows)} {'table' if len(rows) == 1 else 'tables'} without tools"
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
        own: Sequence[str] = ()
        if HOST in config.get("kits", [HOST]):
            own = TABLES
            names = [name for name in names if fold(name) not in TABLES]
        facts = connection.tables(names, own=own)
    return tuple(table for table in schema_from_facts(facts).tables if table.name in names)


def add_tables(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Add tables to the config; return each with its noun and its tools.

    Raises `UsageError` for a table that does not exist or already has tools, and `ProjectError` if
    the config cannot be changed.
    """
    with config_lock(root):
        return _added(root, names)


def _added(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Add the tables; the caller holds the lock of the config."""
    from ralphgen.project.toml_edit import edited

    config, used = _config(root), database_name(root)
    known = {fold(table.name): table for table in unserved(root, config)}
    own = TABLES if HOST in config.get("kits", [HOST]) else ()
    for name in names:
        if fold(name) in map(fold, config.get(KEY, {})):
            raise UsageError(f'"{name}" already has tools', f"see [{KEY}] in {CONFIG}")
        if fold(name) in own:
            raise UsageError(f'"{name}" already has tools', 'list them with "ralphgen tools"')
        if fold(name) not in known:
            listed = [table.name for table in known.values()]
            hint = suggestion(name, listed, "the usable tables", "ralphgen inspect")
            if not listed:
                near = nearest_database(project_home(root), "app.db")
                named = "" if near in ("", used) else f' to that of your app, such as "{near}"'
                hint = f"create the table there, or set [database] path in {CONFIG}{named}"
            text = f'{used} has no table "{name}" that can get tools'
            raise UsageError(text, hint)
    added = [known[fold(name)] for name in dict.fromkeys(names)]
    changes = [((KEY, table.name, "noun"), noun_of(table)) for table in added]
    path = root / CONFIG
    text = whole_text(path, CONFIG, missing="")
    try:
        put(path, edited(text, changes))
    except ValueError as error:
        raise ProjectError(f"cannot change {CONFIG}: {error}", "edit the file by hand") from error
    return [(table.name, noun_of(table), possible(table)) for table in added]


def noun_of(table: Table) -> str:
    """Return the name of one row of a table: its singular, or the table's name if in doubt."""
    before, separator, word = snake(table.name).rpartition("_")
    return f"{before}{separator}{_singular(word)}"[:LONGEST]


def _singular(word: str) -> str:
    """Return the singular of a regular plural, and any other word unchanged."""
    ending, singular = next((pair for pair in _ENDINGS if word.endswith(pair[0])), ("", ""))
    stem = word.removesuffix(ending)
    is_certain = ending == "s" or bool(singular)
    if not is_certain or word in _SINGULAR or not _VOWELS & {*stem, *singular}:
        return word
    return f"{stem}{singular}"


def _config(root: Path) -> dict[str, Any]:
    """Return the raw config; `read_config` reports its problems."""
    text = ""
    try:
        text = (root / CONFIG).read_text(encoding="utf-8-sig")
        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise invalid_toml(CONFIG, text, error) from error
    except (OSError, ValueError) as error:
        raise ProjectError(f"cannot read {CONFIG}: {error}", "fix the file") from error
