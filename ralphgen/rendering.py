"""Renders a plan as files: templates for the variable parts, runtime modules copied unchanged."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen import __version__
from ralphgen.environment import LOCK_NAME
from ralphgen.environment.location import merged_lock
from ralphgen.files import Files, seal
from ralphgen.planning import (
    Constant,
    KitPlan,
    Module,
    Names,
    PlannedTool,
    ServerPlan,
    SkillPlan,
    Workflow,
)
from ralphgen.planning.additions import MODULE
from ralphgen.project.model import Structured
from ralphgen.runtime import kit as runtime_kit
from ralphgen.runtime.policy import ALL, FULL, Policy, Recipe
from ralphgen.spelling import (
    Construction,
    Lines,
    Name,
    Value,
    assignment,
    comment,
    docstring,
    import_from,
    keyword,
    literal,
    markdown_cell,
    sql_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment


PACKAGE = Path(__file__).parent


def template_folder() -> Path:
    """Return the templates' directory: inside an installed package, next to it in a clone."""
    folder = PACKAGE / "templates"
    return folder if folder.is_dir() else PACKAGE.parent / "templates"


@cache
def templates() -> "Environment":
    """Return the environment that reads, compiles and keeps the templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template_folder(), encoding="utf-8"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        literal=literal,
        argument=_argument,
        comment=comment,
        cell=markdown_cell,
        quoted=json.dumps,
        sql_text=sql_text,
    )
    environment.globals.update(
        assignment=assignment,
        docstring=docstring,
        import_from=import_from,
        keyword=keyword,
        lines=Lines,
    )
    return environment


def _argument(value: Value, indent: int) -> str:
    """Return a positional argument as a separate line, with its comma."""
    return f"{literal(value, indent, suffix=',')},"


def rendered(template: str, **values: object) -> str:
    """Return a template filled with values; an undefined variable is an error."""
    return templates().get_template(template).render(values)


RUNTIME = Path(__file__).parent / "runtime"
UNFORMATTED = "# fmt: off\n"  # black has no settings per directory, only this mark
RUNTIME_IMPORT = re.compile(r"^(\s*(?:from|import) )ralphgen\.runtime\b", re.MULTILINE)
IMPORT = re.compile(r"^\s*from (\.*)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
NAME = re.compile(r"\w+")
ANSWERS = "The JSON Schemas of answers, for clients that use structured content."
# The values of `runtime/kit.py` that emitted modules import, by identity: equal ones are spelled.
SHARED = {id(value): name for name, value in vars(runtime_kit).items() if isinstance(value, dict)}
HTTP = "runtime/http/command.py"  # the first module of a server that speaks HTTP


def render_files(plan: ServerPlan) -> Files:
    """Return every emitted file by its path below `.ralph/mcp/`, sorted, with the manifest.

    Formatters and linters of the project skip these files: ruff and prettier through settings in
    the directory, black through a mark at the top of each module.
    """
    every = {kit.key: tuple(tool.name for tool in kit.tools) for kit in plan.kits}
    lock = merged_lock((*every, plan.engine, "http" if plan.http is not None else ""))
    files = {
        "server.py": rendered("server/server.py.jinja", kits=plan.kits),
        "policy.py": rendered("server/policy.py.jinja", policy=policy_lines(plan.policy, every)),
        "README.md": rendered("server/README.md.jinja", **_readme(plan), has_lock=lock != ""),
        "project.json": _facts(plan.facts),
        **({LOCK_NAME: lock} if lock else {}),
        ".gitattributes": rendered("server/gitattributes.jinja", has_lock=lock != ""),
        ".gitignore": rendered("server/gitignore.jinja"),
        ".prettierrc": rendered("server/prettierrc.jinja"),
        "ruff.toml": rendered("server/ruff.toml.jinja"),
    }
    for kit in plan.kits:
        files.update(_kit(kit, plan.engine, plan.structured_output))
    if plan.http is not None:
        title = "How the project is served over HTTP: [http] of .ralph/ralphgen.toml."
        values = {"title": title, "constants": [("SETTINGS", Lines(plan.http))]}
        files["http_settings.py"] = rendered("server/constants.py.jinja", **values)
    more = [HTTP, f"runtime/engine/{plan.engine}/revocations.py"] if plan.http is not None else []
    files.update(_runtime(plan.kits, plan.engine, *more))
    files = {
        path: f"{UNFORMATTED}{text}" if path.endswith(".py") else text
        for path, text in files.items()
    }
    whole = json.dumps(sorted(files.items()), ensure_ascii=True)
    facts: dict[str, object] = {
        "ralphgen": __version__,
        "plan": sha256(whole.encode()).hexdigest(),
        "schema": {
            "fingerprint": plan.schema_fingerprint,
            "hide": list(plan.hide),
            **({"tables": list(plan.tables)} if plan.tables else {}),
            **({"views": plan.views} if plan.views else {}),
            **({"reads": plan.reads} if plan.reads else {}),
        },
        "tools": every,
    }
    return seal(files, facts)


def _kit(kit: KitPlan, engine: str, structured: Structured) -> Files:
    """Return the package of a kit: its definition, its tools by noun, its own modules and texts."""
    tools = Lines(tuple(Name(f"{noun}.TOOLS") for noun in kit.emitted_nouns))
    package = {
        "kit": kit,
        "imports": _package_imports(kit, engine),
        "tools": tools,
        "options": [*_options(kit, structured)],
        "opened_with": [constant for _, constant in _workspace(kit, engine)],
    }
    return {
        **kit.assets,
        f"{kit.key}/__init__.py": rendered("server/kit.py.jinja", **package),
        **{f"{kit.key}/{noun}.py": _tools(kit, noun) for noun in kit.emitted_nouns},
        **{
            module.path: rendered(module.template, **module.values)
            for module in _modules_of(kit, structured)
        },
    }


def _options(kit: KitPlan, structured: Structured) -> Iterator[str]:
    """Yield the optional parts of a kit, each as a line with one argument of `Kit`."""
    named: dict[str, tuple[bool, Value]] = {
        "prompts": (bool(kit.prompts), f"runtime.{kit.key}.{kit.prompts}.prompts"),
        "brief": (kit.brief, f"runtime.{kit.key}.{kit.prompts}.brief"),
        "connected": (kit.connected, Name("connected")),
        "resources": (kit.resources, f"runtime.{kit.key}.resources.RESOURCES"),
        "row_tables": (
            bool(kit.row_resources),
            Lines([Name(f"{module}.{data}") for module, data in kit.row_resources]),
        ),
        "services": (bool(kit.services), f"runtime.{kit.key}.{kit.services}.SERVICES"),
        "skill": (kit.skill is not None, f"{kit.key}.skill"),
        "refusals": (kit.refusals != "result", kit.refusals),
        "logs_refusals": (kit.logs_refusals, True),
        "version": (bool(kit.version), kit.version),
        "answers": (bool(structured and kit.answers), f"{kit.key}.answers.ANSWERS"),
        "structured": (structured != "auto", structured),
    }
    for name, (there, value) in named.items():
        if there:
            yield keyword(name, value, 4)


def _modules_of(kit: KitPlan, structured: Structured) -> tuple[Module, ...]:
    """Return the modules of a kit besides its tools: settings, skill, answers and its own."""
    found = list(kit.modules)
    if structured and kit.answers:
        schemas = {"title": ANSWERS, "constants": [("ANSWERS", Lines(kit.answers))]}
        found.append(Module(f"{kit.key}/answers.py", "server/constants.py.jinja", schemas))
    if kit.skill is not None:
        found.insert(0, skill_module(kit, kit.skill))
    if kit.settings:
        values = {"title": "The settings of the kit.", "constants": [("SETTINGS", kit.settings)]}
        found.insert(0, Module(f"{kit.key}/settings.py", "server/constants.py.jinja", values))
    return tuple(found)


def _workspace(kit: KitPlan, engine: str) -> Iterator[tuple[str, str]]:
    """Yield the (module, name) pairs that the kit's workspace is opened with."""
    if kit.has_database:
        yield f"runtime.engine.{engine}.database", "Database"
    if kit.settings:
        yield f"{kit.key}.settings", "SETTINGS"
    yield from ((f"{kit.key}.{module}", constant) for module, constant in kit.workspace)


def _package_imports(kit: KitPlan, engine: str) -> list[tuple[str, Sequence[str]]]:
    """Return the imports of a kit's package, by module, in the linter's order."""
    own = f"runtime.{kit.key}"
    imports: dict[str, Sequence[str]] = {
        "runtime.kit": ("Kit", "standard_instructions") if kit.about else ("Kit",),
        f"{own}.workspace": (*(["connected"] if kit.connected else []), "open_workspace"),
    }
    if not kit.about:
        imports[f"{own}.workspace"] = ("instructions", *imports[f"{own}.workspace"])
    if kit.emitted_nouns:
        imports[kit.key] = kit.emitted_nouns
    for module, constant in _workspace(kit, engine):
        imports[module] = (*imports.get(module, ()), constant)
    return sorted(imports.items())


def _tools(kit: KitPlan, noun: str) -> str:
    """Return the module that constructs the tools of a noun."""
    tools = kit.members(noun)
    data = {tool.data.name: tool.data for tool in tools if tool.data is not None}
    constants = {name: values for tool in tools for name, values in tool.constants.items()}
    spelled = [(tool, _with_constant_names(tool.hints), _properties(tool)) for tool in tools]
    imports = {"runtime.kit": {*_names([parts for _, *parts in spelled]), "Tool"}}
    for one in data.values():
        imports.setdefault(one.module, set()).update(_names(one.call))
    return rendered(
        "server/tools.py.jinja",
        title=kit.nouns[noun],
        constants=[
            *((name, Lines(constants[name])) for name in sorted(constants)),
            *((name, one.call) for name, one in data.items()),
        ],
        imports=[
            import_from(module, names - constants.keys())
            for module, names in sorted(imports.items())
        ],
        tools=spelled,
    )


def _properties(tool: PlannedTool) -> Lines:
    """Return the schemas of a tool's arguments; a field to clear has its own line."""
    rules = _with_constant_names(tool.properties)
    if "enum" in (items := rules.get("clear", {}).get("items", {})):
        items["enum"] = Lines(items["enum"])
    return Lines(rules)


def _with_constant_names(value: Any) -> Any:
    """Return a value with the names of constants in place of their values."""
    if id(value) in SHARED:
        return Name(SHARED[id(value)])
    if isinstance(value, Constant):
        return Name(value.name)
    if isinstance(value, dict):
        return {key: _with_constant_names(item) for key, item in value.items()}
    return value


def _names(value: object) -> Iterator[str]:
    """Yield the names that a value refers to."""
    if isinstance(value, Name):
        yield value.text
    elif isinstance(value, Lines):
        yield from _names(value.items)
    elif isinstance(value, Construction):
        yield value.name
        yield from _names((value.arguments, value.keywords))
    elif isinstance(value, Mapping):
        yield from _names(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item)


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


def _runtime(kits: Sequence[KitPlan], engine: str, *more: str) -> Files:
    """Return the server package of each kit, and the runtime modules that it needs.

    The modules of a server's start and those in `more` bring their own imports. Imports of
    `ralphgen.runtime` are emitted as imports of `runtime`.
    """
    files = {f"runtime/{name}": text for name, text in _modules(RUNTIME, "**/*.py")}
    needed = [*more, *(path for path in files if path.count("/") == 1)]
    for kit in kits:
        if kit.server:
            copied = _package(kit.key, kit.server)
            files |= copied
            needed += copied
        for library in kit.libraries:
            files |= _package(library.split(".")[-2], library)
        needed += _tools_need(kit)
        if kit.has_database:
            needed += [f"runtime/engine/{engine}/{name}.py" for name in ("database", "journal")]
        if any(tool.run.startswith(f"{MODULE}.") for tool in kit.tools):
            needed.append(f"runtime/engine/{engine}/queries.py")
    found: Files = {}
    while needed:
        path = needed.pop()
        if path in files and path not in found:
            found[path] = files[path]
            needed += _imported(path, files[path])
    return found


def _package(key: str, package: str) -> Files:
    """Return the modules of a package under their emitted paths in `runtime/<key>/`."""
    return {
        f"runtime/{key}/{name}": RUNTIME_IMPORT.sub(r"\1runtime", text)
        for name, text in _modules(Path(str(resources.files(package))), "**/*.py")
    }


def _tools_need(kit: KitPlan) -> Iterator[str]:
    """Yield the modules outside the kit that its tools need."""
    for module in (
        *(tool.run.rpartition(".")[0] for tool in kit.tools),
        *(tool.data.module for tool in kit.tools if tool.data is not None),
        *(["runtime.rows.tools"] if kit.row_resources else []),
    ):
        path = module.replace(".", "/")
        parents = [path, path.rpartition("/")[0]]
        yield from (f"{path}.py", *(f"{parent}/__init__.py" for parent in parents))


def _imported(path: str, text: str) -> Iterator[str]:
    """Yield the possible paths of modules that a runtime module imports, with their packages."""
    for dots, module, names in IMPORT.findall(text):
        package = path.split("/")[: -len(dots)] if dots else []
        parts = [*package, *filter(None, module.split("."))]
        yield f"{'/'.join(parts)}.py"
        yield from (f"{'/'.join((*parts, name))}.py" for name in NAME.findall(names))
        yield from ("/".join((*parts[:end], "__init__.py")) for end in range(1, len(parts) + 1))


def _modules(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of the modules of a folder, by path below it."""
    for path in sorted(folder.glob(pattern)):
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")


def _facts(facts: Mapping[str, Any]) -> str:
    """Return the facts as JSON, a column of a table a line: a new one is a diff of one line."""
    tables = {
        table: ",\n".join(f"      {json.dumps(column, sort_keys=True)}" for column in columns)
        for table, columns in sorted(facts["schema"].items())
    }
    schema = ",\n".join(f"    {json.dumps(table)}: [\n{tables[table]}\n    ]" for table in tables)
    spelled = {
        key: json.dumps(value, indent=2, sort_keys=True).replace("\n", "\n  ")
        for key, value in facts.items()
    } | {"schema": f"{{\n{schema}\n  }}"}
    lines = ",\n".join(f"  {json.dumps(key)}: {spelled[key]}" for key in sorted(spelled))
    return f"{{\n{lines}\n}}\n"


def policy_lines(policy: Policy, every: Mapping[str, Names]) -> dict[str, Any]:
    """Return the policy with one name per line, so that changing a name is a diff of one line.

    If the user's own sessions have every tool of a kit, the single word `ALL` replaces the list.
    Recipes of agents always list their tools, so each tool that an agent gains shows up in a diff.
    """
    recipes = {name: _recipe_lines(recipe) for name, recipe in policy.recipes.items()}
    recipes[FULL]["tools"] = Lines(
        {
            kit: ALL if names == every[kit] else Lines(list(names))
            for kit, names in policy.recipes[FULL].tools.items()
        }
    )
    return {
        "recipes": recipes,
        "removed_tools": _nested(policy.removed_tools),
        "grants": any(recipe.granted_by for recipe in policy.recipes.values()),
        "absent": Lines({kit: Lines(reasons) for kit, reasons in policy.absent.items()}),
    }


def _recipe_lines(recipe: Recipe) -> dict[str, Value]:
    """Return the restrictions of a recipe, without the empty ones."""
    spelled: dict[str, Value] = {
        "tools": _one_a_line(recipe.tools),
        "base": recipe.base,
        "targets": recipe.targets,
        "narrowed_arguments": _one_a_line(recipe.narrowed_arguments),
        "narrowed_values": _nested(recipe.narrowed_values),
        "bound_arguments": Lines(recipe.bound_arguments),
        "granted_by": _one_a_line(recipe.granted_by),
        "loaded_first": Lines(recipe.loaded_first),
    }
    return {name: value for name, value in spelled.items() if getattr(recipe, name)}


def _nested(mapping: Mapping[str, Mapping[str, Sequence[str]]]) -> Value:
    return Lines({name: _one_a_line(members) for name, members in mapping.items()})


def _one_a_line(mapping: Mapping[str, Sequence[str]]) -> Value:
    return Lines({name: Lines(list(names)) for name, names in mapping.items()})


def skill_module(kit: KitPlan, skill: SkillPlan) -> Module:
    """Return the module that holds the words of a kit's skill, and of each of its tools."""
    words = Lines(
        {
            "name": skill.name,
            "title": skill.title,
            "description": skill.description,
            "overview": Lines(skill.overview),
            "tools": Lines({tool.name: _tool(kit, tool) for tool in kit.tools}),
            "workflows": Lines([_workflow(workflow) for workflow in skill.workflows]),
        }
    )
    title = "The skill of this server, which clients read as a resource."
    values = {"title": title, "constants": [("SKILL", words)]}
    return Module(f"{kit.key}/skill.py", "server/constants.py.jinja", values)


def _tool(kit: KitPlan, tool: PlannedTool) -> Value:
    every = {other.name for other in kit.tools}
    said = {"purpose": markdown_cell(tool.purpose), "answer": markdown_cell(tool.answer)}
    instead = {name: markdown_cell(what) for name, what in tool.instead.items() if name in every}
    return Lines({**said, "instead": instead} if instead else said)


def _workflow(workflow: Workflow) -> Value:
    steps: list[Value] = [
        {"tool": step.tool, "given": dict(step.given), "text": step.text} for step in workflow.steps
    ]
    return Lines({"title": workflow.title, "needs": list(workflow.needs), "steps": Lines(steps)})


@cache
def package_texts(package: str, folder: str) -> Mapping[str, str]:
    """Return the text of each file below a folder of a package, by path there, sorted."""
    return dict(sorted(_texts(resources.files(package).joinpath(folder), "")))


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        else:
            yield path + entry.name, entry.read_text(encoding="utf-8")
