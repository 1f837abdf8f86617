"""Explains who may call a tool: the source that removed it, and the sessions that have it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ralphgen.errors import MissingError, UsageError, plain
from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.planning.policy import BROUGHT
from ralphgen.planning.preview import EXAMPLES, supposed_session
from ralphgen.planning.server import KitDefinition, full_catalog
from ralphgen.runtime.policy import ANY, REQUIRED, WITHIN, Grant, Grants
from ralphgen.suggestion import suggestion

REACH_TEXTS = {WITHIN: "a {kind} of the same feature", ANY: "any {kind}"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool of a kit, and one of its arguments or ""."""

    kit: KitPlan
    tool: str
    argument: str = ""

    def __str__(self) -> str:
        argument = f' "{self.argument}"' if self.argument else ""
        return f"{self.kit.key}:{self.tool}{argument}"


def asked_tools(
    plan: ServerPlan, kits: Sequence[KitDefinition], tool: str, argument: str = ""
) -> list[Asked]:
    """Return the tools of this name, or of `"kit:tool"`, in the enabled kits; `kits` are all.

    Raises `MissingError` for an unknown tool, `UsageError` for an unknown argument.
    """
    catalog = full_catalog(kits, plan.kits)
    enabled = {kit.key: kit for kit in plan.kits}
    pairs = catalog.resolved(tool)
    if not pairs:
        names = sorted({name for key in enabled for name in catalog.tools[key]})
        hint = suggestion(tool.rpartition(":")[2], names, "the tools", "ralphgen tools")
        raise MissingError(f'there is no tool "{plain(tool)}"', hint)
    found = [Asked(enabled[kit], name, argument) for kit, name in pairs if kit in enabled]
    if not found:
        kit = pairs[0][0]
        raise MissingError(
            f'the kit "{kit}" of the tool "{plain(tool)}" is not enabled',
            f'add "{kit}" to "kits" in .ralph/ralphgen.toml and run "ralphgen regen"',
        )
    known = {
        name
        for one in found
        for planned in one.kit.tools
        if planned.name == one.tool
        for name in planned.argument_names
    }
    if argument and argument not in known:
        raise UsageError(
            f'the tool "{plain(tool)}" has no argument "{plain(argument)}"',
            suggestion(argument, sorted(known), "its arguments"),
        )
    return found


class Reach:
    """The sessions that a plan allows, and the tools that each of them may call."""

    def __init__(self, plan: ServerPlan) -> None:
        self.policy = plan.policy

    def why(
        self,
        asked: Asked,
        recipe: str,
        *,
        discipline: str | None = None,
        rows: Mapping[str, int | str] | None = None,
    ) -> str:
        """Return the source that removed a tool or an argument, and the recipes that have it.

        `rows` are those that the session works on, by kind; by default those that the recipe needs.
        """
        grants = self._grants(asked, recipe, discipline, rows)
        tool, argument = ((asked.tool, name) for name in ("", asked.argument))
        reason = grants.removed.get(tool) or grants.removed.get(argument)
        words = reason or f'the recipe "{plain(recipe)}" has it'
        recipes = [plain(name) for name in self.policy.recipes if self._grant(asked, name)]
        return f"{asked}: {words} (recipes that have it: {', '.join(recipes) or 'none'})"

    def who(self, asked: Asked) -> Iterator[str]:
        """Yield a line for each recipe whose sessions may call a tool, with disciplines and rows.

        A recipe has several lines if its sessions differ by the rows that they work on.
        """
        for recipe in self.policy.recipes:
            lines: dict[str, list[str]] = {}
            choices = [*self._choices(recipe)]
            for kinds in choices:
                if (line := self._line(asked, recipe, kinds)) is not None:
                    lines.setdefault(line, []).append(" and a ".join(kinds))
            for line, about in lines.items():
                rows = " or ".join(
                    f"with a {kinds}" if kinds else "without a row" for kinds in about
                )
                is_any = len(about) == len(choices)
                yield f"{plain(recipe)}{'' if is_any else f' {rows}'}{line}"

    def _choices(self, recipe: str) -> Iterator[tuple[str, ...]]:
        """Yield each set of rows that sessions of a recipe can work on."""
        targets = self.policy.targets(recipe)
        needed = [kind for kind, need in targets.items() if need == REQUIRED]
        optional = [kind for kind in targets if kind not in needed]
        for count in range(len(optional) + 1):
            for chosen in combinations(optional, count):
                yield (*needed, *chosen)

    def _line(self, asked: Asked, recipe: str, kinds: Sequence[str]) -> str | None:
        """Return the disciplines and limits of sessions with a tool, or None if none has it."""
        brought = {*kinds, *(other for kind in kinds for other in BROUGHT.get(kind, ()))}
        rows = {kind: EXAMPLES[kind] for kind in brought}
        grant = self._grant(asked, recipe, None, rows)
        if grant is None:
            return None
        works_as = () if "discipline" in self.policy.targets(recipe) else self.policy.disciplines
        without = [
            f'"{plain(name)}"'
            for name in sorted(works_as)
            if not self._grant(asked, recipe, name, rows)
        ]
        words = f", not as {', '.join(without)}" if without else ""
        limits = [*_limits(grant, asked.argument)]
        return f"{words}: {'; '.join(limits)}" if limits else words

    def _grant(
        self,
        asked: Asked,
        recipe: str,
        discipline: str | None = None,
        rows: Mapping[str, int | str] | None = None,
    ) -> Grant | None:
        """Return the grant of a tool in a session, or None without the tool or the argument."""
        grant = self._grants(asked, recipe, discipline, rows).tools.get(asked.tool)
        has = grant is not None and (not asked.argument or grant.allows(asked.argument))
        return grant if has else None

    def _grants(
        self,
        asked: Asked,
        recipe: str,
        discipline: str | None,
        rows: Mapping[str, int | str] | None,
    ) -> Grants:
        kit = asked.kit
        session = supposed_session(self.policy, recipe, kit.key, discipline=discipline, rows=rows)
        return session.explained(kit.tools)


def _limits(grant: Grant, argument: str) -> Iterator[str]:
    """Yield the row and the values of an argument, or the rows of all arguments."""
    for name, bound in sorted(grant.rows.items()):
        if argument in ("", name):
            words = REACH_TEXTS.get(bound.reach, "the {kind} of the session").format(
                kind=bound.kind
            )
            yield f"{name} is {words}"
    if argument in grant.values:
        yield f"{argument} is one of {', '.join(sorted(grant.values[argument]))}"
