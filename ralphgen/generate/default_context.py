"""Keeps the context of the user's own client in step with the server beside it."""

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.emit.scaffold import CONTEXT, default_context
from ralphgen.files import MANIFEST, put
from ralphgen.planning.model import ServerPlan
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import ALL, FULL

POLICY = "policy.py"
NAMED = 5
"""Tools that a sentence names; of more it says how many there are."""
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError),
    *(SyntaxError, StopIteration, RecursionError),
)
Tools = Mapping[str, Sequence[str]]


def tools_on_disk(root: Path, recipe: str = FULL, *, absent: bool = False) -> Tools:
    """Return, by kit, the tools that a recipe has in the policy of the server on disk.

    With `absent` also those that the project had no place for. Nothing of it is run; if it cannot
    be read, there are none.
    """
    found: dict[str, list[str]] = {}
    try:
        tree = ast.parse((root / FOLDER / POLICY).read_bytes())
        policy: Any = next(node.value for node in tree.body if isinstance(node, ast.Assign))
        said = {one.arg: one.value for one in policy.keywords}
        names = [ast.literal_eval(key) for key in said["recipes"].keys]
        recipes = dict(zip(names, said["recipes"].values, strict=True))
        given = {one.arg: one.value for one in recipes[recipe].keywords}
        every = json.loads((root / FOLDER / MANIFEST).read_bytes()).get("tools", {})
        whole = ast.literal_eval(given["tools"])
        kits = [{kit: every[kit] if named == ALL else named for kit, named in whole.items()}]
        kits += [ast.literal_eval(said["absent"])] if absent and "absent" in said else []
        for tools in kits:
            for kit, named in tools.items():
                found.setdefault(kit, []).extend(named)
    except UNREADABLE:
        return {}
    return found


def renew_default_context(root: Path, plan: ServerPlan, known: Tools) -> list[str]:
    """Write the default context again if it is as `init` wrote it; return lines to say.

    `known` are the reading tools of the server before, by kit: a context that enables exactly
    these was never changed. Any other is kept, and a line names the tools that it lacks and those
    that no server has. Raises `ProjectError` if it cannot be written.
    """
    path = root / CONTEXT
    try:
        text = path.read_text(encoding="utf-8")
        context: dict[str, Any] = json.loads(text)
        enabled = {kit: [*tools] for kit, tools in context["enabled_tools"].items()}
        if text == default_context(plan):
            return []
        if _spelled(context) == _spelled(json.loads(default_context(plan, enabled))) and (
            {kit: sorted(tools) for kit, tools in enabled.items() if tools}
            == {kit: sorted(tools) for kit, tools in known.items() if tools}
        ):
            put(path, default_context(plan))
            return [f"wrote {CONTEXT}: it enables the read-only tools, as before"]
        return _difference(plan, context)
    except UNREADABLE:
        return []  # the server itself refuses a context that cannot be read


def _spelled(context: Mapping[str, Any]) -> str:
    """Return a context as text, without what it takes away of nothing."""
    return json.dumps({**context, "disabled_tools": any(context["disabled_tools"].values())})


def _difference(plan: ServerPlan, context: Mapping[str, Any]) -> list[str]:
    """Return a line on what a context lacks of its recipe's tools and names that is not there."""
    policy, recipe = plan.policy, context["recipe"]
    if recipe not in policy.recipes:
        return []
    enabled, disabled = context["enabled_tools"], context.get("disabled_tools", {})
    whole = {kit.key: (*(tool.name for tool in kit.tools), *kit.absent) for kit in plan.kits}
    lacks = [
        f"{kit.key}:{tool.name}"
        for kit in plan.kits
        for tool in kit.tools
        if tool.name in policy.allowed(recipe, kit.key)
        if tool.name not in {*enabled.get(kit.key, ()), *disabled.get(kit.key, ())}
    ]
    gone = dict.fromkeys(
        f"{kit}:{name}"
        for named in (enabled, disabled)
        for kit, names in named.items()
        for name in names
        if name not in whole.get(kit, ())
    )
    said = [f"lacks {_counted(lacks)}"] * bool(lacks)
    said += [f"contains the removed {_counted([*gone])}"] * bool(gone)
    hint = f'renew it with "ralphgen session create {recipe} --default"'
    return [f"warning: {CONTEXT} was kept; it {' and '.join(said)}: {hint}"] if said else []


def _counted(tools: Sequence[str]) -> str:
    """Return the first of some tools in words, and how many more there are."""
    more = f" and {len(tools) - NAMED} more" if len(tools) > NAMED else ""
    return one_line(f"{', '.join(tools[:NAMED])}{more}")
