"""The inspected facts as JSON: what `project.json` holds, and reading it back."""

import json
from collections.abc import Mapping
from typing import Any

from ralphgen.project.model import Project, Removal, Table


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
