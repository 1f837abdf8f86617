"""The definition of a kit, and the plan of a project: its kits with additions and policy."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.planning import (
    KitPlan,
    Module,
    Names,
    PlannedTool,
    ServerPlan,
    SkillPlan,
    Wording,
)
from ralphgen.planning.access import KitAccess
from ralphgen.planning.policy import Catalog, override_warnings, plan_policy
from ralphgen.project.lookup import CONFIG
from ralphgen.project.model import Finding, ProjectFacts, Replaced, project_facts
from ralphgen.runtime.policy import Policy

if TYPE_CHECKING:  # commands on rows need no model of the settings
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Tools that are added to a kit's server, and the modules emitted with them.

    The members have the meaning of `KitPlan`. `overview` is added to the kit's skill, as Markdown
    by heading, and `used_for` to its description. `origins` is the source of each tool, for
    messages.
    """

    nouns: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[PlannedTool, ...] = ()
    modules: tuple[Module, ...] = ()
    libraries: Names = ()
    row_resources: tuple[tuple[str, str], ...] = ()
    overview: Mapping[str, str] = field(default_factory=dict)
    used_for: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    warnings: Names = ()
    origins: Mapping[str, str] = field(default_factory=dict)


def with_additions(kit: KitPlan, additions: Sequence[Addition]) -> KitPlan:
    """Return a server with its additions.

    Raises `ProjectError` for each name of a tool or an emitted module that already exists.
    """
    problems: list[Problem] = []
    for added in additions:
        problems += _clashes(kit, added)
        kit = replace(
            kit,
            nouns={**kit.nouns, **added.nouns},
            tools=(*kit.tools, *added.tools),
            modules=(*kit.modules, *added.modules),
            libraries=tuple(dict.fromkeys((*kit.libraries, *added.libraries))),
            resources=kit.resources or bool(added.row_resources),
            row_resources=(*kit.row_resources, *added.row_resources),
            skill=_skill(kit.skill, added),
            absent={**kit.absent, **added.absent},
            warnings=(*kit.warnings, *added.warnings),
        )
    if problems:
        raise ProjectError.of(problems)
    return kit


def _skill(skill: SkillPlan | None, added: Addition) -> SkillPlan | None:
    """Return a kit's skill with the texts of an addition."""
    if skill is None:
        return None
    description = f"{skill.description} {added.used_for}".strip()
    return replace(skill, description=description, overview={**skill.overview, **added.overview})


def _clashes(kit: KitPlan, added: Addition) -> list[Problem]:
    """Return a problem for each name that a kit or the addition itself has already."""
    taken = Counter([tool.name for tool in (*kit.tools, *added.tools)] + [*kit.absent])
    problems = [
        Problem(
            f"{added.origins.get(name, kit.key)}: "
            f'the server "{kit.key}" already has a tool "{name}"',
            "give it another name",
        )
        for name in dict.fromkeys(tool.name for tool in added.tools)
        if taken[name] > 1
    ]
    return problems + [
        Problem(f'the server "{kit.key}" already has a module "{noun}"', "give it another name")
        for noun in added.nouns
        if noun in kit.nouns
    ]


@dataclass(frozen=True, slots=True)
class KitDefinition:
    """A kit: ralphgen emits a server for it.

    `server` is the plan of its server for any project, with all possible tools; its `key` is the
    kit's name in the config, in `.ralph/mcp/` and on the server's command line. `plan` returns the
    server for one project, from the facts alone.

    `settings` is the model of the config table with the kit's name. `survey` takes the project's
    directory and the settings, and returns facts from the project's files as JSON; it raises
    `ProjectError` for files that it cannot use. `find` takes the same and returns what the server
    would find. `setup` has the files, by path below the project's directory, that `init --kit`
    creates if they do not exist. `access` returns the permissions of the sessions' own logins on
    the kit's tables. `additions` plan the project's own tools; the first enabled kit that has any
    plans them, each from the project and the server so far. With `any_schema` the kit works on any
    database, also without tasks, features and disciplines.
    """

    server: KitPlan
    plan: Callable[[ProjectFacts], KitPlan]
    settings: "type[BaseModel] | None" = None
    survey: Callable[[Path, Mapping[str, Any]], object] | None = None
    find: Callable[[Path, Mapping[str, Any]], Finding] | None = None
    setup: Mapping[str, str] = field(default_factory=dict)
    access: Callable[[ProjectFacts, KitPlan, Policy], KitAccess] | None = None
    any_schema: bool = False
    additions: tuple[Callable[[ProjectFacts, KitPlan], Addition], ...] = ()

    @property
    def key(self) -> str:
        """The kit's name."""
        return self.server.key

    @property
    def tools(self) -> tuple[PlannedTool, ...]:
        """All the tools that it can have."""
        return self.server.tools

    @property
    def catalog(self) -> Names:
        """The names of all the tools that it can have."""
        return tuple(tool.name for tool in self.tools)


def with_own_words(
    kits: Sequence[KitPlan], replaced: Sequence[Replaced], catalog: Catalog
) -> tuple[tuple[KitPlan, ...], tuple[Wording, ...]]:
    """Return the kits with the project's own descriptions, and the size of each in `tools/list`.

    A tool without a place in the project is not changed. Raises `ProjectError` with a problem for
    each entry that names an unknown tool or argument.
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
            said = tool.properties[argument].get("description", "") if dot else tool.description
            wordings.append(Wording(one.entry, _size(said), _size(one.text)))
            told = _with_argument_description(tool, argument, one.text)
            planned[key][name] = told if dot else replace(tool, description=one.text)
    if problems:
        raise ProjectError.of(problems)
    own = tuple(replace(kit, tools=tuple(planned[kit.key].values())) for kit in kits)
    return own, tuple(wordings)


def _with_argument_description(tool: PlannedTool, argument: str, text: str) -> PlannedTool:
    """Return the tool with another description of one of its arguments."""
    arguments = tuple(
        replace(one, schema={**one.schema, "description": text}) if one.name == argument else one
        for one in tool.arguments
    )
    return replace(tool, arguments=arguments)


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def plan_server(project: ProjectFacts, kits: Sequence[KitDefinition]) -> ServerPlan:
    """Return the plan of everything to emit for a project; `kits` are all kits of ralphgen.

    Raises `ProjectError` with every inconsistency between the facts, such as unknown names of tools
    and recipes.
    """
    planned = tuple(_planned(project, kits))
    if project.done is not None and not any(kit.proves for kit in planned):
        text = f"{CONFIG}: checks are configured, but no enabled kit has tasks"
        raise ProjectError(text, "enable a kit with tasks, or remove the checks")
    catalog = full_catalog(kits, planned)
    planned, wordings = with_own_words(planned, project.replaced, catalog)
    policy = plan_policy(project, planned, catalog)
    removals = (*project.stored_removals, *project.configured_removals)
    overrides = tuple(override_warnings(removals, policy.recipes, planned, catalog))
    return ServerPlan(
        kits=planned,
        policy=policy,
        structured_output=project.structured_output,
        schema_fingerprint=project.schema.fingerprint,
        hide=project.schema.hide,
        facts=project_facts(project),
        warnings=(
            *project.warnings,
            *(f"{problem.text}: its sessions cannot start" for problem in project.unusable_servers),
            *(line for kit in planned for line in kit.warnings),
            *(line for _, line in overrides),
        ),
        overrides=overrides,
        wordings=wordings,
        tables=tuple(table.name for table in project.tables),
        reads=project.queries.reads if project.queries else {},
        views=project.schema.views,
        engine=project.engine,
        http=_http_settings(project, planned),
    )


def full_catalog(kits: Sequence[KitDefinition], planned: Sequence[KitPlan]) -> Catalog:
    """Return all names of tools: from every kit, and from the project's additions."""
    names = {kit.key: dict.fromkeys(kit.catalog) for kit in kits}
    for kit in planned:
        names[kit.key].update(dict.fromkeys((*(tool.name for tool in kit.tools), *kit.absent)))
    return Catalog({key: tuple(found) for key, found in names.items()})


def _planned(project: ProjectFacts, kits: Sequence[KitDefinition]) -> Iterator[KitPlan]:
    """Yield the servers of the enabled kits; the first kit with additions gets all of them.

    Each addition sees those before it.
    """
    waits = True
    for kit in kits:
        if kit.key not in project.kits:
            continue
        plan = kit.plan(project)
        if kit.additions and not waits:
            text = f'{CONFIG}: "kits" contains "{kit.key}", but another kit already has its tools'
            raise ProjectError(text, f'remove "{kit.key}" from "kits"')
        if kit.additions:
            waits = False
            for add in kit.additions:
                plan = with_additions(plan, [add(project, plan)])
        yield plan


def _http_settings(project: ProjectFacts, kits: Sequence[KitPlan]) -> dict[str, Any] | None:
    """Return how the project is served over HTTP, or None if it is not.

    Raises `ProjectError` if no kit supports it, or if tokens could not name the project.
    """
    if not project.http:
        return None
    settings = json.loads(project.http)
    served = {kit.key: kit.http for kit in kits if kit.http is not None}
    if not served:
        text = f"{CONFIG}: [http] is configured, but no enabled kit supports it"
        raise ProjectError(text, "enable a kit with tasks, or remove [http]")
    if settings["id"] is None:
        text = f'{CONFIG}: [http] has no "id", which tokens require'
        raise ProjectError(text, 'run "ralphgen regen", which writes one')
    return {
        **settings,
        "engine": project.engine,
        "database": project.database_location,
        "kits": {
            key: {
                "withheld": use.withheld,
                "withheld_values": use.withheld_values,
            }
            for key, use in served.items()
        },
    }
