"""What items say of themselves, whatever their format."""

from __future__ import annotations

from ..wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_OBJECTS = ("config", "config_schema", "env_config")


def text_of(metadata: Mapping[str, Any], key: str) -> str:
    """A field that is a text; empty where there is none, or one of another kind."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags, which are a list or a text with commas."""
    tags = metadata.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return ()
    found = (str(tag).strip() for tag in tags if isinstance(tag, str | int | float))
    return tuple(tag for tag in found if tag)


def tool_problems(metadata: Mapping[str, Any]) -> list[str]:
    """What a tool says in a shape that it cannot be run with."""
    problems = [
        f'"{key}" must be an object, found {shown(metadata[key])}'
        for key in _OBJECTS
        if not isinstance(metadata.get(key, {}), dict)
    ]
    executor = metadata.get("executor_id")
    if executor is not None and not isinstance(executor, str):
        problems.append(f'"executor_id" must be text or null, found {shown(executor)}')
    return problems


def schema_of(parameters: Any) -> tuple[dict[str, Any], list[str]]:
    """The JSON Schema of a list of parameters, and what is wrong with the list."""
    properties: dict[str, Any] = {}
    problems: list[str] = []
    needed: list[str] = []
    for entry in parameters if isinstance(parameters, list) else [None]:
        further = dict(entry) if isinstance(entry, dict) else {}
        name = further.pop("name", None)
        required = further.pop("required", False)
        if not isinstance(name, str) or not name:
            return {}, ['"parameters" must be a list of objects that have a "name" each']
        if name in properties:
            problems.append(f"the parameter {shown(name)} is there twice")
        if not isinstance(required, bool):
            problems.append(
                f'"required" of the parameter {shown(name)} must be true or false, '
                f"found {shown(required)}"
            )
        if required is True:
            needed.append(name)
        properties[name] = {"type": "string", **further}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": needed} if needed else {}), problems
