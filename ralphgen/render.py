"""Spells a plan as text: templates for what varies, runtime modules and the lock as they are."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.lock import LOCK_NAME, read_lock
from ralphgen.output.manifest import Files, seal
from ralphgen.planning.model import KitPlan, PolicyPlan, RecipePlan, ServerPlan, ToolPlan
from ralphgen.spelling import Lines, Name, Value
from ralphgen.templating import rendered

HERE = Path(__file__).parent
CORE = (
    "__init__.py",
    "arguments.py",
    "binding.py",
    "calling.py",
    "context.py",
    "digest.py",
    "envelope.py",
    "errors.py",
    "front.py",
    "handover.py",
    "kit.py",
    "log.py",
    "nearest.py",
    "packages.py",
    "policy.py",
    "presence.py",
    "process.py",
    "prompt.py",
    "reading.py",
    "service.py",
    "services.py",
    "session.py",
    "start.py",
    "tie.py",
    "tool.py",
    "turns.py",
    "updates.py",
    "waiting.py",
)


def render_files(plan: ServerPlan) -> Files:
    """Every emitted file by its path below `.ralph/mcp/`, sorted, the manifest among them."""
    files = {
        "server.py": rendered("server.py.jinja", kits=plan.kits),
        "policy.py": rendered("policy.py.jinja", policy=_policy_lines(plan.policy)),
        "README.md": rendered("README.md.jinja", **_readme(plan)),
        "project.json": _json(plan.facts),
        LOCK_NAME: read_lock(),
        ".gitattributes": rendered("gitattributes.jinja"),
        ".gitignore": rendered("gitignore.jinja"),
    }
    for kit in plan.kits:
        files.update(_kit(kit, structured=plan.structured_output))
    files.update(_runtime(plan.kits))
    facts: dict[str, object] = {
        "ralphgen": __version__,
        "plan": _digest(files),
        "schema": {"fingerprint": plan.schema_fingerprint, "hide": list(plan.hide)},
    }
    return seal(files, facts)


def _kit(kit: KitPlan, *, structured: bool) -> Files:
    """The package of a kit: what it is, its tools by noun, its own modules and texts."""
    tools = Lines(tuple(Name(f"*{noun}.TOOLS") for noun in kit.emitted_nouns))
    package = {"kit": kit, "imports": _package_imports(kit), "tools": tools}
    return {
        **kit.assets,
        f"{kit.key}/__init__.py": rendered("kit.py.jinja", **package),
        **{
            f"{kit.key}/{noun}.py": _tools(kit, noun, structured=structured)
            for noun in kit.emitted_nouns
        },
        **{module.path: rendered(module.template, **module.values) for module in kit.modules},
    }


def _package_imports(kit: KitPlan) -> list[tuple[str, Sequence[str]]]:
    """What the package of a kit imports, by module, in the linter's order."""
    own = f"runtime.{kit.key}"
    imports: dict[str, Sequence[str]] = {
        "runtime.kit": ("Kit",),
        f"{own}.instructions": ("instructions",),
        f"{own}.workspace": ("open_workspace",),
    }
    if kit.prompts:
        imports[f"{own}.prompts"] = ("prompts",)
    if kit.resources:
        imports[f"{own}.resources"] = ("RESOURCES",)
    if kit.services:
        imports[f"{own}.services"] = ("SERVICES",)
    if kit.emitted_nouns:
        imports[kit.key] = kit.emitted_nouns
    for module, constant in kit.workspace:
        imports[f"{kit.key}.{module}"] = (*imports.get(f"{kit.key}.{module}", ()), constant)
    return sorted(imports.items())


def _tools(kit: KitPlan, noun: str, *, structured: bool) -> str:
    """The table of the tools that stand in one module."""
    spelled = [_tool(tool, structured=structured) for tool in kit.members(noun)]
    used = {name for tool in spelled for name in _names((tool["properties"], Name(tool["hints"])))}
    constants = [
        (name, Lines(list(kit.constants[name]))) for name in sorted(used & {*kit.constants})
    ]
    imports = {*used - {*kit.constants}, "Tool"}
    return rendered(
        "tools.py.jinja",
        title=kit.nouns[noun],
        kit=kit.key,
        noun=noun,
        constants=constants,
        imports=imports,
        tools=spelled,
    )


def _tool(tool: ToolPlan, *, structured: bool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "hints": tool.hints,
        "properties": Lines({argument.name: argument.schema for argument in tool.arguments}),
        "required": [argument.name for argument in tool.arguments if argument.required],
        "writes_by": tool.writes_by,
        "needs": Lines(
            {argument.name: argument.needs for argument in tool.arguments if argument.needs}
        ),
        "refusals": Lines(
            {argument.name: argument.refusal for argument in tool.arguments if argument.refusal}
        ),
        "search_hint": tool.search_hint,
        "returns": tool.returns if structured else None,
    }


def _names(value: object) -> Iterator[str]:
    """The constants that a value refers to."""
    if isinstance(value, Name):
        yield value.text
    elif isinstance(value, Lines):
        yield from _names(value.items)
    elif isinstance(value, Mapping):
        yield from _names(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item)


def _policy_lines(policy: PolicyPlan) -> dict[str, Any]:
    """The policy with one name a line, so that a change of one is a diff of one line."""
    return {
        "recipes": {name: _recipe_lines(recipe) for name, recipe in policy.recipes.items()},
        "removed_tools": _nested(policy.removed),
        "absent": Lines({kit: Lines(reasons) for kit, reasons in policy.absent.items()}),
    }


def _recipe_lines(recipe: RecipePlan) -> dict[str, Value]:
    """What a recipe leaves, without what nothing is said of."""
    spelled: dict[str, Value] = {
        "tools": _one_a_line(recipe.tools),
        "base": recipe.base,
        "targets": recipe.targets,
        "narrowed_arguments": _one_a_line(recipe.narrowed_arguments),
        "narrowed_values": _nested(recipe.narrowed_values),
        "bound_arguments": Lines(recipe.bound_arguments),
        "loaded_first": Lines(recipe.loaded_first),
    }
    return {name: value for name, value in spelled.items() if getattr(recipe, name)}


def _nested(mapping: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Value:
    return Lines({name: _one_a_line(members) for name, members in mapping.items()})


def _one_a_line(mapping: Mapping[str, tuple[str, ...]]) -> Value:
    return Lines({name: Lines(list(names)) for name, names in mapping.items()})


def _readme(plan: ServerPlan) -> dict[str, object]:
    recipes = plan.policy.recipes
    return {
        "kits": plan.kits,
        "seen_by": {
            kit.key: {
                tool.name: [name for name in recipes if tool.name in recipes[name].tools[kit.key]]
                for tool in kit.tools
            }
            for kit in plan.kits
        },
    }


def _runtime(kits: Sequence[KitPlan]) -> Files:
    """The runtime modules that the kits need, byte for byte."""
    wanted = [*CORE, *(name for kit in kits for name in kit.runtime)]
    files: Files = {}
    for name in wanted:
        path = HERE / "runtime" / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            relative = source.relative_to(HERE).as_posix()
            files[relative] = source.read_text(encoding="utf-8")
    return files


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _digest(files: Mapping[str, str]) -> str:
    """One sha256 over everything that the plan decided."""
    whole = json.dumps(sorted(files.items()), ensure_ascii=True)
    return sha256(whole.encode()).hexdigest()
