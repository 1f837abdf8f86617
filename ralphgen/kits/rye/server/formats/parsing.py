"""Parses items, each by its format, and checks those that are to be signed."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.modules import add_packages

from ..authenticity.signatures import split
from ..formats import Parsed, tags_of, text_of
from ..item import BUILT_IN, DIRECTIVE, KNOWLEDGE, PRIMITIVES, SYSTEM, TOOL
from ..values import PARSING_ERROR, VALIDATION_FAILED, shown
from .yaml_values import read_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..item import Item

_BLOCK = re.compile(r"((?:#[^\n]*+\n|[ \t]*+\n)*+)```ya?ml[ \t]*+\n")
_OPENING = re.compile(r"\n*+---[ \t]*+\n")
_END = re.compile(r"^---[ \t]*+$", re.MULTILINE)
_BLOCK_END = re.compile(r"^```[ \t]*+$", re.MULTILINE)
LARGEST_SCHEMA = 40_000  # characters, whose check takes no more than a second or two
_TEXTS = {
    DIRECTIVE: ("name", "version", "description", "author"),
    TOOL: ("version", "tool_type", "description"),
}
_OF_KNOWLEDGE = ("title", "version")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def parse(item: Item, text: str, bare: str | None = None) -> Parsed:
    """Return what an item says, from the text of its file.

    `bare` is what of it counts: without it, all but the signature line. Raises nothing: what the
    format does not allow is among its problems, with the numbers of the lines in the file.
    """
    bare = split(text, item.extension)[1] if bare is None else bare
    lines_before = text.count("\n") - bare.count("\n")
    text = "\n" * lines_before + bare.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if item.type == DIRECTIVE:
        from .directives import parse_directive

        return parse_directive(text, item.name)
    if item.type == KNOWLEDGE:
        return parse_knowledge(text, item.name)
    from .tools import parse_python_tool, parse_yaml_tool

    if item.extension == ".py":
        return parse_python_tool(text, item.name)
    return parse_yaml_tool(text, item.name)


def require(item: Item, text: str) -> Parsed:
    """Return the content of an item, from the text of its file.

    Raises `CodedError` for every fault because of which it could not be signed.
    """
    parsed = parse(item, text)
    if parsed.problems:
        raise CodedError(
            PARSING_ERROR,
            f'cannot parse the {item.type} "{item.id}": {parsed.problems[0]}',
            item_id=item.id,
            problems=list(parsed.problems),
        )
    issues, _ = issues_of(item, parsed)
    if issues:
        further = f" (and {len(issues) - 1} more)" if issues[1:] else ""
        raise CodedError(
            VALIDATION_FAILED,
            f'the {item.type} "{item.id}" is not valid: {issues[0]}{further}; fix its file first',
            item_id=item.id,
            issues=issues,
        )
    return parsed


def parse_knowledge(text: str, name: str) -> Parsed:
    """Return what knowledge says, from its text with plain line ends; `name` is for lists.

    Its metadata stand in YAML between two lines `---` at the top, or in a block of YAML between
    backticks that only headings may stand before. They are given as they stand, dates as ISO texts.
    """
    if opening := _OPENING.match(text):
        before, end = "", _END.search(text, opening.end())
    elif opening := _BLOCK.match(text):
        before, end = opening[1], _BLOCK_END.search(text, opening.end())
    else:
        why = 'no metadata: expected YAML between two lines "---" at the top'
        return Parsed({}, text, title=name, problems=(why,))
    if end is None:
        return Parsed(
            {}, text, title=name, problems=('the metadata block is not closed: add a line "---"',)
        )
    lines = text.count("\n", 0, opening.end())
    metadata, problems = read_yaml(text[opening.end() : end.start()], lines)
    if not isinstance(metadata, dict):
        problems = problems or ["the metadata must be key-value pairs"]
        metadata = {}
    return Parsed(
        metadata,
        "\n\n".join(filter(None, (before.strip("\n"), text[end.end() :].strip("\n")))),
        title=text_of(metadata, "title") or name,
        description=text_of(metadata, "description"),
        tags=tags_of(metadata),
        problems=tuple(problems),
    )


def issues_of(item: Item, parsed: Parsed) -> tuple[list[str], list[str]]:
    """Return what forbids that an item is signed, and what its author should be warned of.

    As the reference says in its sections 1 and 6.2.
    """
    if parsed.problems:
        return list(parsed.problems), []
    found = parsed.metadata
    issues = [*_common_issues(item, found)]
    warnings: list[str] = []
    if item.type == DIRECTIVE:
        from .inputs import input_issues

        issues += input_issues(parsed)
        named = ("model", "permissions")
        warnings += [f"no {shown(key)}" for key in named if not found.get(key)]
    elif item.type == TOOL:
        issues += _executor_issues(item, found)
        issues += _schema_issues(found)
        issues += _placeholder_issues(found)
        if item.extension == ".py" and not found.get("entry"):
            from .tools import NO_ENTRY

            warnings.append(f"{NO_ENTRY}, so only tools in its directory can use it, by import")
        properties = found.get("config_schema", {}).get("properties")
        warnings += [
            f"the parameter {shown(name)} is ignored: the server sets a value of that name"
            for name in (properties if isinstance(properties, dict) else ())
            if name in BUILT_IN
        ]
    elif (kind := found.get("entry_type", "")) in ("", None):
        warnings.append('no "entry_type"')
    elif not isinstance(kind, str):
        issues.append(f'"entry_type" must be a string, found {shown(kind)}: put it in quotes')
    return issues, warnings


def _common_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the fields that are texts, the name and the category."""
    named = "id" if item.type not in _TEXTS and "id" in found else "name"
    for key in _TEXTS.get(item.type, (named, *_OF_KNOWLEDGE)):
        value = found.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            yield _missing(item, key)
        elif key == "version":
            if not isinstance(value, str) or not _VERSION.fullmatch(value):
                yield f'"version" must be X.Y.Z, found {shown(value)}'
        elif not isinstance(value, str):
            yield f"{shown(key)} must be a string, found {shown(value)}: put it in quotes"
        elif key == named and value != item.name:
            yield (
                f"{shown(key)} must be {shown(item.name)} to match the file name, found "
                f"{shown(value)}"
            )
    yield from _category_issues(item, found)


def _missing(item: Item, key: str) -> str:
    """Return that a field is missing, and of a tool in Python what would set it."""
    text = f"missing required field {shown(key)}"
    if item.extension != ".py":
        return text
    from .tools import FIELDS

    (name,) = (name for name, field in FIELDS.items() if field == key)
    text += f": set {name} at the top level of the file"
    if key == "description":
        text += ", or add a module docstring"
    return text


def _category_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    if "category" not in found:
        if item.type in _TEXTS:
            yield _missing(item, "category")
    elif (category := found["category"] or "") != item.category:
        expected = "must be empty, because the file is at the top level"
        if item.category:
            expected = f"must be {shown(item.category)} to match the directory"
        yield f'"category" {expected}, found {shown(category)}'


def _executor_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    primitive = item.source == SYSTEM and item.id in PRIMITIVES
    if "executor_id" not in found:
        yield _missing(item, "executor_id")
    elif not found["executor_id"] and not primitive:
        yield '"executor_id" must name the tool that runs this one'


def _placeholder_issues(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the placeholders of the config that neither a parameter nor the server fills."""
    from ..execution.config import placeholders, unfilled
    from ..execution.parameters import declared

    known = {*BUILT_IN, *declared(found.get("config_schema"))}
    texts = [found.get("config"), found.get("env_config", {}).get("env")]
    for name in dict.fromkeys(placeholders(texts)):
        if name not in known:
            yield unfilled(name, known)


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
        yield (
            f'"config_schema" has {written:,} characters: shorten it to at most {LARGEST_SCHEMA:,}'
        )
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in ("config_schema", *error.absolute_path))
        yield f"{shown(where)} is not a valid JSON Schema: {error.message[:200]}"
    except RecursionError:
        yield '"config_schema" is nested too deeply'
