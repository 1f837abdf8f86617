"""What `tools/list` answers in each kind of session, computed without starting a server."""

import json
from collections.abc import Mapping
from typing import Any

from ralphgen.planning.model import KitPlan, ServerPlan, ToolPlan, Values
from ralphgen.runtime import tool as runtime_tool
from ralphgen.spelling import Lines, Name


def listed_tools(plan: ServerPlan, recipe: str, kit: KitPlan) -> list[dict[str, Any]]:
    """The tools of a kit as a session of the recipe receives them, in order."""
    names = plan.policy.recipes[recipe][kit.key]
    narrowed = plan.policy.narrowed.get(recipe, {})
    listed: list[dict[str, Any]] = []
    for planned in kit.tools:
        if planned.name not in names:
            continue
        tool = _built(planned, kit.constants)
        keep = narrowed.get(f"{kit.key}:{planned.name}")
        shown = tool if keep is None else tool.narrowed(keep)
        described = {
            "name": shown.name,
            "description": shown.description,
            "inputSchema": shown.input_schema(),
            "annotations": dict(shown.hints),
        }
        if plan.structured_output:
            described["outputSchema"] = planned.returns
        listed.append(described)
    return listed


def listed_bytes(tools: list[dict[str, Any]]) -> int:
    """The bytes of the tools in the answer to `tools/list`, as compact JSON."""
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())


def _built(planned: ToolPlan, constants: Mapping[str, Values]) -> runtime_tool.Tool:
    """The tool as the emitted module builds it."""
    return runtime_tool.Tool(
        planned.name,
        planned.description,
        hints=getattr(runtime_tool, planned.hints),
        run=_never,
        properties={
            argument.name: _resolved(argument.schema, constants) for argument in planned.arguments
        },
        required=[argument.name for argument in planned.arguments if argument.required],
    )


def _never(_workspace: object, _arguments: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError


def _resolved(value: Any, constants: Mapping[str, Values]) -> Any:
    """A value with the constants that it names spelled out."""
    if isinstance(value, Name):
        named = constants.get(value.text)
        return getattr(runtime_tool, value.text) if named is None else list(named)
    if isinstance(value, Lines):
        return _resolved(value.items, constants)
    if isinstance(value, Mapping):
        return {key: _resolved(item, constants) for key, item in value.items()}
    return value
