"""What a project adds to the server of its rows: tools of its own tables, queries and files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ralphgen.errors import Problem, ProjectError
from ralphgen.planning.model import KitPlan, Module, Names, ToolPlan, Values
from ralphgen.planning.skill import SkillPlan
from ralphgen.spelling import Construction


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Tools that are added to a kit's server, with what they are emitted with.

    The members are those of `KitPlan`. `overview` holds what the kit's skill says of them, Markdown
    by heading, and `used_for` when to use it besides. `origins` says, by tool, where it comes from,
    for messages.
    """

    nouns: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[ToolPlan, ...] = ()
    constants: Mapping[str, Values] = field(default_factory=dict)
    data: Mapping[str, tuple[str, Construction]] = field(default_factory=dict)
    modules: tuple[Module, ...] = ()
    libraries: Names = ()
    row_resources: tuple[tuple[str, str], ...] = ()
    overview: Mapping[str, str] = field(default_factory=dict)
    used_for: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    warnings: Names = ()
    origins: Mapping[str, str] = field(default_factory=dict)


def with_additions(kit: KitPlan, additions: Sequence[Addition]) -> KitPlan:
    """Return a server with what is added to it.

    Raises `ProjectError` for each name of a tool, or of an emitted module, that is there already.
    """
    problems: list[Problem] = []
    for added in additions:
        problems += _clashes(kit, added)
        kit = replace(
            kit,
            nouns={**kit.nouns, **added.nouns},
            tools=(*kit.tools, *added.tools),
            constants={**kit.constants, **added.constants},
            data={**kit.data, **added.data},
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
    """Return a kit's skill with what it says of an addition."""
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
