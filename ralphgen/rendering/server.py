"""Spells a plan as text: templates for what varies, runtime modules and the lock as they are."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.environment.location import LOCK_NAME, read_lock
from ralphgen.output.manifest import Files, seal
from ralphgen.planning.model import KitPlan, Module, PolicyPlan, RecipePlan, ServerPlan, ToolPlan
from ralphgen.rendering.templates import rendered
from ralphgen.spelling import Lines, Name, Value

RUNTIME = Path(__file__).parents[1] / "runtime"
CORE = ("access", "protocol", "values")  # the rooms that every server has; a kit names others
IMPORTS = re.compile(r"^(\s*(?:from|import) )ralphgen\.runtime\b", re.MULTILINE)


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
    """Return the package of a kit: what it is, its tools by noun, its own modules and texts."""
    tools = Lines(tuple(Name(f"*{noun}.TOOLS") for noun in kit.emitted_nouns))
    package = {
        "kit": kit,
        "imports": _package_imports(kit),
        "tools": tools,
        "opened_with": [constant for _, constant in _workspace(kit)],
    }
    return {
        **kit.assets,
        f"{kit.key}/__init__.py": rendered("kit.py.jinja", **package),
        **{
            f"{kit.key}/{noun}.py": _tools(kit, noun, structured=structured)
            for noun in kit.emitted_nouns
        },
        **{module.path: rendered(module.template, **module.values) for module in _modules_of(kit)},
    }


def _modules_of(kit: KitPlan) -> tuple[Module, ...]:
    """Return the modules that a kit emits besides its tools: its settings, if any, then its own."""
    if not kit.settings:
        return kit.modules
    values = {"title": "The settings of the kit.", "constants": [("SETTINGS", kit.settings)]}
    return (Module(f"{kit.key}/settings.py", "constants.py.jinja", values), *kit.modules)


def _workspace(kit: KitPlan) -> tuple[tuple[str, str], ...]:
    """Return the (module, constant) pairs that the kit's workspace is opened with."""
    return ((("settings", "SETTINGS"),) if kit.settings else ()) + kit.workspace


def _package_imports(kit: KitPlan) -> list[tuple[str, Sequence[str]]]:
    """Return what the package of a kit imports, by module, in the linter's order."""
    own = f"runtime.{kit.key}"
    imports: dict[str, Sequence[str]] = {
        "runtime.kit": ("Kit", "standard_instructions") if kit.about else ("Kit",),
        f"{own}.workspace": ("open_workspace",),
    }
    if not kit.about:
        imports[f"{own}.instructions"] = ("instructions",)
    if kit.prompts:
        imports[f"{own}.prompts"] = ("prompts",)
    if kit.resources:
        imports[f"{own}.resources"] = ("RESOURCES",)
    if kit.services:
        imports[f"{own}.services"] = ("SERVICES",)
    if kit.emitted_nouns:
        imports[kit.key] = kit.emitted_nouns
    for module, constant in _workspace(kit):
        imports[f"{kit.key}.{module}"] = (*imports.get(f"{kit.key}.{module}", ()), constant)
    return sorted(imports.items())


def _tools(kit: KitPlan, noun: str, *, structured: bool) -> str:
    """Return the table of the tools that stand in one module."""
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
        "instruction": tool.instruction,
        "advice": tool.advice,
        "returns": tool.returns if structured else None,
    }


def _names(value: object) -> Iterator[str]:
    """Yield the constants that a value refers to."""
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
    """Return the policy with one name a line, so that a change of one is a diff of one line."""
    return {
        "recipes": {name: _recipe_lines(recipe) for name, recipe in policy.recipes.items()},
        "removed_tools": _nested(policy.removed),
        "absent": Lines({kit: Lines(reasons) for kit, reasons in policy.absent.items()}),
    }


def _recipe_lines(recipe: RecipePlan) -> dict[str, Value]:
    """Return what a recipe leaves, without what nothing is said of."""
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
    """The runtime's rooms that the kits need, byte for byte, and the server package of each kit.

    What a kit imports of `ralphgen.runtime` is `runtime` where it is emitted.
    """
    rooms = {*CORE, *(room for kit in kits for room in kit.runtime)}
    files: Files = {f"runtime/{name}": text for name, text in _modules(RUNTIME, "*.py")}
    for room in sorted(rooms):
        found = _modules(RUNTIME / room, "**/*.py")
        files.update({f"runtime/{room}/{name}": text for name, text in found})
    for kit in kits:
        if kit.server:
            found = _modules(Path(str(resources.files(kit.server))), "**/*.py")
            files.update(
                {
                    f"runtime/{kit.key}/{name}": IMPORTS.sub(r"\1runtime", text)
                    for name, text in found
                }
            )
    return files


def _modules(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of the modules of a folder, by path below it."""
    for path in sorted(folder.glob(pattern)):
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def _digest(files: Mapping[str, str]) -> str:
    """Return one sha256 over everything that the plan decided."""
    whole = json.dumps(sorted(files.items()), ensure_ascii=True)
    return sha256(whole.encode()).hexdigest()
