"""Checks items before they are signed (reference, sections 1 and 6.2)."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.packages import add_packages

from ..failures import shown
from ..ids import BUILT_IN, PRIMITIVES
from ..item import DIRECTIVE, SYSTEM, TOOL
from .inputs import input_issues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from ..item import Item
    from .parsed import Parsed

LARGEST_SCHEMA = 40_000  # characters, whose check takes no more than a second or two
_TEXTS = {
    DIRECTIVE: ("name", "version", "description", "author"),
    TOOL: ("version", "tool_type", "description"),
}
_OF_KNOWLEDGE = ("title", "version", "entry_type")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def issues_of(item: Item, parsed: Parsed) -> tuple[list[str], list[str]]:
    """Return what forbids that an item is signed, and what its author should be warned of."""
    if parsed.problems:
        return list(parsed.problems), []
    found = parsed.metadata
    issues = [*_common_issues(item, found)]
    warnings: list[str] = []
    if item.type == DIRECTIVE:
        issues += input_issues(parsed)
        warnings += _missing_warnings(found)
    elif item.type == TOOL:
        issues += _executor_issues(item, found)
        issues += _schema_issues(found)
        properties = found.get("config_schema", {}).get("properties")
        warnings += _name_warnings(properties if isinstance(properties, dict) else ())
    return issues, warnings


def _common_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the fields that are texts, the name and the category."""
    named = "id" if item.type not in _TEXTS and "id" in found else "name"
    for key in _TEXTS.get(item.type, (named, *_OF_KNOWLEDGE)):
        value = found.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            yield f"missing required field {shown(key)}"
        elif key == "version":
            if not isinstance(value, str) or not _VERSION.fullmatch(value):
                yield f'"version" must be X.Y.Z, found {shown(value)}'
        elif not isinstance(value, str):
            yield f"{shown(key)} must be text, found {shown(value)}: put it in quotes"
        elif key == named and value != item.name:
            yield f"{shown(key)} is {shown(value)} and must be {shown(item.name)}, as the file"
    if "category" in found:
        yield from _category_issues(item, found["category"] or "")
    elif item.type in _TEXTS:
        yield 'missing required field "category"'


def _category_issues(item: Item, category: Any) -> Iterator[str]:
    if category != item.category and item.category:
        yield f'"category" is {shown(category)} and must be {shown(item.category)}, as the folder'
    elif category != item.category:
        yield f'"category" is {shown(category)} and must be empty: the file lies in no folder'


def _missing_warnings(found: Mapping[str, Any]) -> Iterator[str]:
    for key in ("model", "permissions"):
        if not found.get(key):
            yield f"there is no {shown(key)}"


def _name_warnings(names: Iterable[str]) -> Iterator[str]:
    """Yield warnings of parameters whose names stand for values of the server."""
    for name in names:
        if name in BUILT_IN:
            yield (
                f"the parameter {shown(name)} is not filled in: the server gives a value of that "
                "name itself"
            )


def _executor_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    primitive = item.source == SYSTEM and item.id in PRIMITIVES
    if "executor_id" not in found:
        yield 'missing required field "executor_id"'
    elif not found["executor_id"] and not primitive:
        yield '"executor_id" must name the tool that runs this one: only built-in tools have none'


def _schema_issues(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the schema of the parameters, a JSON Schema of Draft 2020-12."""
    if "config_schema" not in found:
        return
    add_packages()
    from jsonschema import Draft202012Validator, SchemaError

    schema = found["config_schema"]
    if schema.get("type") != "object":
        yield f'"config_schema" must have the type "object", found {shown(schema.get("type"))}'
        return
    if (written := len(json.dumps(schema))) > LARGEST_SCHEMA:
        yield f'"config_schema" has {written:,} characters, and may have {LARGEST_SCHEMA:,}'
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in ("config_schema", *error.absolute_path))
        yield f"{shown(where)} is no JSON Schema: {error.message[:200]}"
    except RecursionError:
        yield '"config_schema" holds values within each other too deep to be checked'
