"""Compares the server on disk with the project's state: parts that only one of them has."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning.server import plan_server
from ralphgen.project.inspect import FACTS, loosened
from ralphgen.project.model import ProjectFacts, table_facts
from ralphgen.project.root import FOLDER
from ralphgen.project.schema import (
    Facts,
    Parts,
    missing_required_columns,
    recorded_parts,
    schema_from_facts,
)
from ralphgen.runtime.engine.schema import fingerprint, fold

Recorded = Mapping[str, Any]
"""The facts of `project.json`, as one commit or the disk has them."""

WAYS_OUT = 'run the missing migration, or remove them with "ralphgen regen --allow-removals"'


_CREATED = re.compile(r"CREATE (?:UNIQUE )?(INDEX|TRIGGER) (?:IF NOT EXISTS )?(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lag:
    """The tables, columns and values that each side lacks, in words, sorted.

    If both lack something, each has changes that the other has not seen.
    """

    database: tuple[str, ...] = ()
    server: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return which side is out of date; empty if neither is."""
        of_database = f"the database is out of date: {_absent(self.database)}"
        of_server = f"the server is out of date: {_absent(self.server)}"
        said = [of_database] * bool(self.database) + [of_server] * bool(self.server)
        return "; ".join(said)

    def hint(self) -> str:
        """Return the remedy; empty if neither side is out of date."""
        if self.database and self.server:
            return 'migrate this database first, then run "ralphgen regen" and commit'
        if self.database:
            away = '"ralphgen regen --allow-removals" removes them'
            return f"migrate this database; if it is correct, {away}"
        return 'run "ralphgen regen" and commit the result' if self.server else ""


def _absent(parts: Sequence[str]) -> str:
    """Return that these parts are missing."""
    named = ", ".join(part.removeprefix("the ") for part in parts)
    return f"{named} {'is' if len(parts) == 1 else 'are'} missing"


def lag(recorded: Iterable[Recorded], project: ProjectFacts) -> Lag:
    """Return the parts that the project's database and the recorded servers lack of each other.

    Columns that the config hides are ignored on both sides.
    """
    hide = project.schema.hide
    defined = project.schema.definitions
    every_one = [*recorded]
    named = [recorded_parts(one) for one in every_one]
    is_known = defined is not None and None not in named  # an earlier ralphgen recorded none
    found = _parts(table_facts(project.schema.tables), hide)
    known = [_parts(one["schema"], hide) for one in every_one]
    if is_known:
        found |= _names(defined or ())
        known = [one | _names(parts or ()) for one, parts in zip(known, named, strict=True)]
    every = {name: words for parts in known for name, words in parts.items()}
    if not every:
        return Lag()
    return Lag(_missing(every, found), _missing(found, every))


def refuse_removals(
    recorded: Sequence[Recorded], project: Project, removed: Collection[str]
) -> None:
    """Raise `ProjectError` with every part of the recorded servers that the new one would lose.

    These are tables, columns, values and tools without a counterpart in the database, and proof
    that tasks are done. Removals in the config are explicit and do not count. `removed` are tables
    that the command itself has removed.
    """
    gone = lag(recorded, project.facts).database
    parts = [one for one in gone if one not in {f'the table "{name}"' for name in removed}]
    tools = sorted({tool for one in recorded for tool in _lost_tools(one, project)})
    texts = [f"{FOLDER} would lose {one}" for one in (*parts, *tools)]
    proof: list[str] = []
    for one in recorded:
        lost = loosened(one["config"].get("done"), project.facts.done)
        proof += [f'{what}; this can weaken the proof of "done"' for what in lost]
    if texts or proof:
        *others, last = sorted({*texts, *proof})
        hint = WAYS_OUT if texts else 'apply it with "ralphgen regen --allow-removals"'
        raise ProjectError.of([*map(Problem, others), Problem(last, hint)])


def refuse_behind(project: Project) -> None:
    """Raise `ProjectError` if the database lacks tables or columns that the server on disk has."""
    try:
        recorded = read_recorded((project.root / FACTS).read_bytes())
    except OSError:
        return
    found = Lag(lag(recorded, project.facts).database)
    if found.database:
        raise ProjectError(found.sentence(), found.hint())


def refuse_unstartable(project: Project) -> None:
    """Raise `ProjectError` if the database is too old for the server on disk to start."""
    try:
        recorded = read_recorded((project.root / FACTS).read_bytes())
    except OSError:
        return
    schema = project.schema
    if any(fingerprint(one["schema"], schema.hide) != schema.fingerprint for one in recorded):
        refuse_behind(project)


def read_recorded(text: bytes) -> list[Recorded]:
    """Return the facts in the text of a `project.json`; empty if it is invalid."""
    try:
        facts = json.loads(text)
        schema_from_facts(facts["schema"])
        facts["config"].get("done")
        recorded_parts(facts)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    return [facts]


def _parts(tables: Facts, hide: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Return the tables, columns and values that a server may see, as words by identity."""
    hidden = {fold(entry) for entry in hide}
    parts: dict[tuple[str, ...], str] = {}
    for table, columns in tables.items():
        parts[(table,)] = f'the table "{table}"'
        for column in columns:
            name = f"{table}.{column['name']}"
            if fold(name) in hidden:
                continue
            parts[table, fold(column["name"])] = f'the column "{name}"'
            for value in column["values"] or ():
                parts[table, fold(column["name"]), value] = f'the value "{value}" of "{name}"'
    return parts


def _names(definitions: Parts) -> dict[tuple[str, ...], str]:
    """Return the indexes and triggers of tables, as words by identity."""
    found: dict[tuple[str, ...], str] = {}
    for table, parts in definitions:
        for part in parts:
            if name := _CREATED.match(part):
                words = f'the {name[1].lower()} {name[2]} of "{table}"'
                found[table, f"{name[1]} {name[2]}"] = words
    return found


def _missing(
    wanted: Mapping[tuple[str, ...], str], there: Mapping[tuple[str, ...], str]
) -> tuple[str, ...]:
    """Return the missing parts in words; for a missing whole, not its parts.

    A column without a list of values accepts any value, and lacks none.
    """
    limited = {key[:2] for key in there if len(key) > len(("table", "column"))}
    return tuple(
        words
        for key, words in sorted(wanted.items())
        if key not in there
        and (key[:-1] in there or len(key) == 1)
        and (key[:2] in limited or len(key) <= len(("table", "column")))
    )


def _lost_tools(one: Recorded, project: Project) -> list[str]:
    """Return the tools that the recorded schema supports and the project's schema does not.

    Both are planned from the same config, so that only the database can make a difference.
    """
    columns = {
        fold(f"{table}.{column['name']}")
        for table, columns in one["schema"].items()
        for column in columns
    }
    hide = [entry for entry in project.schema.hide if fold(entry) in columns]
    try:
        schema = schema_from_facts(one["schema"], hide)
        lacks = missing_required_columns(schema, set(one["schema"]))
        if lacks and not project.serves_any_database:
            return []  # it was generated for the tables of an app
        before = plan_server(replace(project.facts, schema=schema), KITS)
    except ProjectError:
        return []
    now = {(kit.key, tool.name) for kit in project.plan.kits for tool in kit.tools}
    return [
        f'the tool "{kit.key}:{tool.name}"'
        for kit in before.kits
        for tool in kit.tools
        if (kit.key, tool.name) not in now
    ]
