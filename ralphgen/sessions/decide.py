"""Decides who may do what in one session, from the request, the policy and the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.errors import ProjectError, UsageError
from ralphgen.planning.model import PROFILES, Names, RecipePlan, ServerPlan
from ralphgen.planning.preview import runtime_policy
from ralphgen.project.rows import ProjectRows
from ralphgen.runtime.access.row_scope import OWN
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import REQUIRED
from ralphgen.runtime.session import ROWS, Session
from ralphgen.sessions.model import Request
from ralphgen.suggestion import suggestion

OPTIONS = {"task": "--task N", "feature": "--feature NAME", "discipline": "--discipline NAME"}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a session is about, and who works in it.

    `recipe` is what it calls itself and `base` the recipe of the policy that rules it; `discipline`
    is a discipline, and so is `target`, the one that it is about.
    """

    recipe: str
    base: str
    task: int | None = None
    feature: str | None = None
    discipline: str | None = None
    target: str | None = None

    @property
    def shown(self) -> str:
        """The row that it is about, empty where there is none."""
        return str(self.task or self.feature or self.target or "")


def decide_subject(plan: ServerPlan, request: Request, rows: ProjectRows) -> Subject:
    """Return what the requested session is about; a task brings its feature and its discipline.

    Raises `UsageError` for names that there are not, options that the recipe has no use for or
    that contradict the task's row, and `ProjectError` for rows that cannot be used.
    """
    base = _base(plan, request.recipe, rows)
    targets = plan.policy.recipes[base].targets
    kinds = (*targets, "feature") if "task" in targets else tuple(targets)
    _refuse_useless(request, kinds)
    _refuse_missing(request, plan.policy.recipes[base])
    _refuse_unknown(request, rows)
    is_target = "discipline" in kinds
    named = request.discipline or None
    about = Subject(
        request.recipe,
        base,
        feature=request.feature or None,
        discipline=None if is_target else named,
        target=named if is_target else None,
    )
    return about if request.task is None else _of_task(request.task, about, rows)


def context_facts(
    plan: ServerPlan, subject: Subject, kits: Names, session_id: str, project: Mapping[str, object]
) -> dict[str, Any]:
    """Return the whole context of a session, by key; `kits` are those that it has servers of."""
    facts: dict[str, Any] = {
        "version": 1,
        "session_id": session_id,
        "project": project,
        "recipe": subject.recipe,
        "base": subject.base,
        "discipline": subject.discipline,
        ROWS["discipline"]: subject.target,
        ROWS["feature"]: subject.feature,
        ROWS["task"]: subject.task,
    }
    tables: dict[str, dict[str, Any]] = {
        key: {} for key in ("enabled_tools", "disabled_tools", "narrowed_arguments", "bindings")
    }
    policy = runtime_policy(plan.policy)
    for kit in plan.kits:
        if kit.key not in kits:
            continue
        session = Session(kit.key, facts, subject.base, policy, None)
        enabled = [tool.name for tool in kit.tools if tool.name in session.enabled]
        narrowed = policy.narrowed(subject.base, kit.key)
        tables["enabled_tools"][kit.key] = enabled
        tables["disabled_tools"][kit.key] = [
            tool.name for tool in kit.tools if tool.name not in session.enabled
        ]
        tables["narrowed_arguments"][kit.key] = {
            name: list(narrowed[name]) for name in enabled if name in narrowed
        }
        bound = {name: _own_rows(session, name) for name in enabled}
        tables["bindings"][kit.key] = {name: rows for name, rows in bound.items() if rows}
    return {**facts, **tables}


def _own_rows(session: Session, tool: str) -> dict[str, int | str]:
    """Return the arguments of a tool that can name only the session's own row, with the row."""
    return {
        argument: tie.value
        for argument, tie in session.bound_arguments(tool).items()
        if tie.reach == OWN
    }


def _base(plan: ServerPlan, recipe: str, rows: ProjectRows) -> str:
    """Return the recipe of the policy that rules: the one of this name, or the base of a row."""
    known = plan.policy.recipes
    if recipe in known:
        return recipe
    base = rows.base(recipe)
    if isinstance(base, str) and base in PROFILES:
        return base
    if base is not None:
        bases = ", ".join(PROFILES)
        raise ProjectError(
            f'the recipe "{one_line(recipe)}" of recipe_configs has the base '
            f'"{one_line(str(base))}", which is none',
            f"the bases are {bases}",
        )
    names = (*known, *rows.names("recipe_configs"))
    hint = suggestion(recipe, names, "the recipes")
    raise UsageError(f'there is no recipe "{one_line(recipe)}"', hint)


def _refuse_useless(request: Request, kinds: Names) -> None:
    """Raise `UsageError` for a row that a session of the recipe is never about."""
    for kind, given in (("task", request.task), ("feature", request.feature)):
        if given not in (None, "") and kind not in kinds:
            raise UsageError(
                f'the recipe "{request.recipe}" is not about a {kind}', f'leave "--{kind}" out'
            )


def _refuse_missing(request: Request, recipe: RecipePlan) -> None:
    given = {"task": request.task, "feature": request.feature, "discipline": request.discipline}
    for kind, need in recipe.targets.items():
        if need == REQUIRED and given[kind] in (None, ""):
            raise UsageError(
                f'the recipe "{request.recipe}" needs a {kind}', f"add {OPTIONS[kind]}"
            )


def _refuse_unknown(request: Request, rows: ProjectRows) -> None:
    for kind, name in (("feature", request.feature), ("discipline", request.discipline)):
        names = rows.names(f"{kind}s")
        if name and name not in names:
            hint = suggestion(name, names, f"the {kind}s")
            raise UsageError(f'there is no {kind} "{one_line(name)}"', hint)


def _of_task(task: int, about: Subject, rows: ProjectRows) -> Subject:
    """Return the subject with the feature and the discipline of its task."""
    row = rows.task(task)
    if row is None:
        raise UsageError(f"there is no task {task}", "name one that there is")
    feature, discipline = row
    for kind, named, found in (
        ("feature", about.feature, feature),
        ("discipline", about.discipline, discipline),
    ):
        if named not in (None, found):
            own, other = one_line(found), one_line(str(named))
            raise UsageError(
                f'task {task} is of the {kind} "{own}", not "{other}"', f'leave "--{kind}" out'
            )
    return Subject(about.recipe, about.base, task, feature, discipline, about.target)
