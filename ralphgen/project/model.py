"""The facts that inspection finds: frozen values, and the JSON of `project.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as the database declares it.

    `values` is the CHECK list in the schema's order, `None` where none is known for certain.
    `primary_key` is the position in the key, from 1; 0 outside of it. `references` is
    `"table(column)"` of a foreign key, or `None`.
    """

    name: str
    type: str
    not_null: bool = False
    default: str | None = None
    primary_key: int = 0
    references: str | None = None
    values: Names | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table with its columns in the schema's order."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables that the server works on, sorted by name; `fingerprint` is a sha256 in hex.

    `hide` names columns, as `"table.column"`, that the server must not know.
    """

    tables: tuple[Table, ...]
    fingerprint: str
    hide: Names = field(default=())

    def table(self, name: str) -> Table | None:
        """Return the table of this name, hidden columns included, or None."""
        return next((table for table in self.tables if table.name == name), None)

    def hidden(self, table: str, column: str) -> bool:
        """Return whether the server must not know a column; ASCII letter case does not count."""
        return f"{table}.{column}".lower() in {entry.lower() for entry in self.hide}


@dataclass(frozen=True, slots=True)
class Removal:
    """What a discipline takes away: entries are `"tool"` or `"kit:tool"`.

    `origin` says where it stands, for messages.
    """

    discipline: str
    entries: Names
    origin: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A kind of session of the project's own, from a file in `.ralph/recipes/`.

    `allow` holds, for each kit that it names, the tools it keeps of its base's; a kit that it does
    not name keeps none, and where it names no kit all keep all. `narrow` holds, by `"tool"` or
    `"kit:tool"`, the arguments that it keeps, and `bind` the kinds of rows (task, feature,
    discipline) without which it cannot run. `origin` is the file, for messages; `places` says
    where in it stand `"base"`, `"bind"`, each `"kit"` and each `"kit:tool"` of `allow`, and each
    `"narrow tool"`.
    """

    name: str
    base: str
    allow: tuple[tuple[str, Names], ...]
    origin: str
    narrow: tuple[tuple[str, Names], ...] = ()
    bind: Names = ()
    places: tuple[tuple[str, str], ...] = ()

    def place(self, what: str) -> str:
        """Return where something stands, as `path:line`, or the file where that is not known."""
        return dict(self.places).get(what, self.origin)


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that decides what is emitted.

    `stored_removals` stand in the database, `configured_removals` in the config; both and
    `recipes` are sorted by name. `settings` holds, by kit, its table of the config, and `surveys`
    what the kit found in the project's files, both as JSON text. `warnings` are for people;
    nothing emitted depends on them.
    """

    kits: Names
    structured_output: bool
    schema: Schema
    stored_removals: tuple[Removal, ...] = ()
    configured_removals: tuple[Removal, ...] = ()
    recipes: tuple[Recipe, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    surveys: tuple[tuple[str, str], ...] = ()
    warnings: Names = ()

    def setting(self, kit: str, name: str) -> Any:
        """Return the value of a kit's setting: the config's, or the kit's own default."""
        return json.loads(dict(self.settings)[kit])[name]

    def survey(self, kit: str) -> Any:
        """Return what a kit found in the project's files, as a value of JSON."""
        return json.loads(dict(self.surveys)[kit])


def project_facts(project: Project) -> dict[str, Any]:
    """Return the facts of a project; a clone without the database is checked against them."""
    return {
        "config": {
            "disciplines": _listed(project.configured_removals),
            "hide": list(project.schema.hide),
            "kits": list(project.kits),
            "settings": {kit: json.loads(values) for kit, values in project.settings},
            "structured_output": project.structured_output,
        },
        "disciplines": _listed(project.stored_removals),
        "recipes": {
            recipe.name: {
                "base": recipe.base,
                "allow": dict(recipe.allow),
                "narrow": dict(recipe.narrow),
                "bind": list(recipe.bind),
            }
            for recipe in project.recipes
        },
        "schema": table_facts(project.schema.tables),
        "surveys": {kit: json.loads(facts) for kit, facts in project.surveys},
    }


def table_facts(tables: tuple[Table, ...]) -> dict[str, list[dict[str, Any]]]:
    """Return the tables as `read_tables` of the runtime gives them."""
    return {
        table.name: [
            {
                "name": column.name,
                "type": column.type,
                "not_null": column.not_null,
                "default": column.default,
                "primary_key": column.primary_key,
                "references": column.references,
                "values": None if column.values is None else list(column.values),
                "generated": column.generated,
            }
            for column in table.columns
        ]
        for table in tables
    }


def _listed(removals: tuple[Removal, ...]) -> Mapping[str, list[str]]:
    return {removal.discipline: list(removal.entries) for removal in removals}
