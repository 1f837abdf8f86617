"""Makes the pages of the reference from the code: commands, settings, recipe files and tools."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reference_errors import errors_page
from reference_resources import resources_page

from ralphgen.cli.commands import load
from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.emit.scaffold import CONTEXT, config_schema, recipe_schema
from ralphgen.emit.skills import GUIDE, render_skills
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.project import lookup
from ralphgen.runtime.policy import FULL
from ralphgen.spelling import markdown_cell
from ralphgen.terminal.console import COMMANDS

CONFIG = (
    "# All settings\n\nEvery key of `.ralph/ralphgen.toml`: what it holds, and what without it.\n"
)
RECIPES = "# Recipe files\n\nEvery key of `.ralph/recipes/*.toml`.\n"
TOOLS = "# Tools of `{kit}`\n\nEvery tool of the kit {kit}, on the tables of a new project.\n"
TABLE = (
    "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, "
    "severity INTEGER CHECK (severity IN (1, 2, 3)))"
)
EXAMPLE = (
    "# Tools of `tables`\n\nThe tools of the kit tables, on one table as an example:\n\n"
    f"```sql\n{TABLE}\n```\n"
)
SETTINGS = """\
kits = ["tables"]

[database]
path = "shop.db"

[tables.risks]
noun = "risk"
"""
Rules = Mapping[str, Any]
"""A part of a JSON Schema."""


def reference_pages() -> Mapping[str, str]:
    """Return the pages of the reference: name → Markdown."""
    return {
        "commands": _commands(),
        "config": "\n".join([CONFIG, *_settings("", config_schema())]),
        "recipes": "\n".join([RECIPES, *_settings("", recipe_schema())]),
        "errors": errors_page(),
        **_served(),
    }


def _served() -> dict[str, str]:
    """Return a page for each kit, its tools on the tables of a new project, and their resources."""
    with TemporaryDirectory() as folder:
        kits = tuple(kit.key for kit in KITS if not kit.any_schema)
        root = initialize(
            Path(folder),
            InitOptions(kits=kits),
            say=lambda _line: None,
            agree=lambda _question: False,
        )
        plan = Project(root).plan
        skills = render_skills(plan)
        every = {"recipe": FULL, "enabled_tools": plan.policy.recipes[FULL].tools}
        context = {"version": 1, "session_id": "reference", **every}
        (root / CONTEXT).write_text(json.dumps(context), encoding="utf-8")
        resources = resources_page(root, kits)
    tools = {
        f"tools-{skill.kit}": re.sub("^# .*\n", TOOLS.format(kit=skill.kit), skill.files[GUIDE])
        for skill in skills
    }
    return {**tools, "tools-tables": _tools_on_a_table(), "resources": resources}


def _tools_on_a_table() -> str:
    """Return the page of the kit `tables`, with the tools on one table as an example."""
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / ".ralph").mkdir()
        (root / lookup.CONFIG).write_text(SETTINGS, encoding="utf-8")
        with closing(sqlite3.connect(root / "shop.db")) as connection:
            connection.execute(TABLE)
        (skill,) = render_skills(Project(root).plan)
    return re.sub("^# .*\n", EXAMPLE, skill.files[GUIDE])


def _commands() -> str:
    """Return the help of every command."""
    parts = ["# All commands\n"]
    for name in COMMANDS:
        parts += _helps(load(name), f"ralphgen {name}")
    return "\n".join(parts)


def _helps(command: Any, path: str) -> Iterator[str]:
    """Yield a section for a command, and one for each command in it."""
    context = command.make_context(path, [], resilient_parsing=True)
    yield f"## `{path}`\n\n```console\n{command.get_help(context)}\n```\n"
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{path} {name}")


def _settings(path: str, table: Rules, defs: Rules | None = None) -> Iterator[str]:
    """Yield what a table of a settings file holds, then the tables in it, each in a section."""
    known = table.get("$defs", {}) if defs is None else defs
    if path:
        yield f"## `{path}`\n"
    if "description" in table:
        yield "\n\n".join(" ".join(one.split()) for one in table["description"].split("\n\n"))
        yield ""
    rows: list[str] = []
    inner: dict[str, Rules] = {}
    for key, rule in table.get("properties", {}).items():
        found = _table_in(rule, known)
        default = None if found else rule.get("default")
        kind = _type(rule)
        if found:
            mark, part = found
            kind = mark.format(f"{path.strip('[]')}.{key}".removeprefix("."))
            inner[kind] = part
            kind = f"`{kind}`"
        shown = "" if default in (None, "", [], {}) else f"`{_toml(default)}`"
        words = markdown_cell(" ".join(str(rule.get("description", "")).split()))
        rows.append(f"| `{key}` | {kind} | {shown} | {words} |")
    if found := _table_in({"additionalProperties": table.get("additionalProperties")}, known):
        inner[found[0].format(path.strip("[]"))] = found[1]
    if rows:
        yield "\n".join(["| key | holds | default | |", "|---|---|---|---|", *rows, ""])
    for place, part in inner.items():
        yield from _settings(place, part, known)


def _table_in(rule: Rules, defs: Rules) -> tuple[str, Rules] | None:
    """Return how the table that a key holds is written, with its schema; None for another value."""
    for mark, one in (
        ("[{}]", rule),
        ("[{}.<name>]", rule.get("additionalProperties")),
        ("[[{}]]", rule.get("items")),
        *(("[{}]", choice) for choice in rule.get("anyOf", ())),
    ):
        if isinstance(one, dict) and "$ref" in one:
            return mark, defs[one["$ref"].rpartition("/")[2]]
    return None


def _type(rule: Rules) -> str:
    """Return what a key holds, in words."""
    if "enum" in rule or "const" in rule:
        return ", ".join(f"`{_toml(value)}`" for value in rule.get("enum", [rule.get("const")]))
    if "anyOf" in rule:
        choices = [_type(one) for one in rule["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(choices))
    kind = str(rule.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(rule.get('items', {}))}"
    values = rule.get("additionalProperties")
    return f"table of {_type(values)}" if kind == "object" and isinstance(values, dict) else kind


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
