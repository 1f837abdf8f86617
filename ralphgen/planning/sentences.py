"""The project's own words for tools and arguments, in place of those that ralphgen brings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import Argument, KitPlan, ToolPlan, Wording
from ralphgen.project.model import Replaced
from ralphgen.runtime import tool as runtime_tool
from ralphgen.spelling import Name
from ralphgen.suggestion import suggestion


def with_own_words(
    kits: Sequence[KitPlan], replaced: Sequence[Replaced], catalog: Catalog
) -> tuple[tuple[KitPlan, ...], tuple[Wording, ...]]:
    """Return the kits with the project's own words, and what each of them costs in `tools/list`.

    A tool that the project has no place for keeps its words until it has one. Raises `ProjectError`
    with a problem for each entry that means no tool or no argument.
    """
    planned = {kit.key: {tool.name: tool for tool in kit.tools} for kit in kits}
    wordings: list[Wording] = []
    problems: list[Problem] = []
    entries: dict[tuple[str, str, str], str] = {}
    for one in replaced:
        named, dot, argument = one.entry.partition(".")
        pairs = catalog.resolved(named)
        if not pairs:
            problems.append(catalog.unknown(named, one.origin))
        for key, name in pairs:
            tool = planned.get(key, {}).get(name)
            if tool is None:
                continue
            if dot and argument not in tool.argument_names:
                text = f'{one.origin}: "{name}" has no argument "{argument}"'
                hint = suggestion(argument, tool.argument_names, "the arguments")
                problems.append(Problem(text, hint))
                continue
            other = entries.setdefault((key, name, argument), one.entry)
            if other != one.entry:
                text = f'{one.origin}: "{one.entry}" is described twice, also as "{other}"'
                problems.append(Problem(text, "remove one of them"))
                continue
            said = _said(tool, argument) if dot else tool.description
            wordings.append(Wording(one.entry, _size(said), _size(one.text)))
            told = _told(tool, argument, one.text)
            planned[key][name] = told if dot else replace(tool, description=one.text)
    if problems:
        raise ProjectError.of(problems)
    own = tuple(replace(kit, tools=tuple(planned[kit.key].values())) for kit in kits)
    return own, tuple(wordings)


def _told(tool: ToolPlan, argument: str, text: str) -> ToolPlan:
    """Return the tool with other words for one of its arguments."""
    arguments = tuple(
        replace(one, schema={**_schema(one), "description": text}) if one.name == argument else one
        for one in tool.arguments
    )
    return replace(tool, arguments=arguments)


def _said(tool: ToolPlan, argument: str) -> str:
    found = next(one for one in tool.arguments if one.name == argument)
    return str(_schema(found).get("description", ""))


def _schema(argument: Argument) -> Mapping[str, Any]:
    """Return the schema of an argument, spelled out where it stands for one of the runtime."""
    schema: Any = argument.schema
    found: Mapping[str, Any] = (
        getattr(runtime_tool, schema.text) if isinstance(schema, Name) else schema
    )
    return found


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
