"""Decides who may do what in one session, from the request, the policy and the database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.errors import MissingError, ProjectError, UsageError, suggestion
from ralphgen.project.root import CONFIG, database_location, refuse_other_engine
from ralphgen.project.schema import ProjectRows
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import OWN, REQUIRED, Policy, names_own_row
from ralphgen.runtime.session import ROWS, Session

CLOSING_TOOL = "set_task_status"
WORKING = "task_execution"  # the profile whose sessions work on a task
TASKS = "ralph"  # the kit that serves tasks
NO_BRIEF: Mapping[str, object] = {}
NEAREST = 3  # ids of tasks to suggest for an unknown one
OPTIONS = {
    "task": "--task N, or --next",
    "feature": "--feature NAME",
    "discipline": "--discipline NAME",
}


@dataclass(frozen=True, slots=True)
class RowAsRead:
    """Columns of a row as the user has read them; the user's change is based on them.

    `kind` is task, feature or discipline, and `key` its id or its name.
    """

    kind: str
    key: int | str
    columns: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request for a session; unspecified values are empty.

    `next` requests the next task, of the feature and discipline if named; tasks in `behind` come
    last. With `as_read`, which is for calls only, nothing is written if the row has changed since.
    """

    recipe: str
    task: int | None = None
    feature: str = ""
    discipline: str = ""
    kits: tuple[str, ...] = ()
    next: bool = False
    behind: frozenset[int] = frozenset()
    as_read: RowAsRead | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a session, and who works in it.

    `recipe` is its displayed recipe, and `base` the recipe of the policy with its rules;
    `discipline` is its discipline, and `target` the discipline that it works on.
    """

    recipe: str
    base: str
    task: int | None = None
    feature: str | None = None
    discipline: str | None = None
    target: str | None = None

    @property
    def rows(self) -> dict[str, int | str]:
        """The rows that the session works on, by kind."""
        rows = {"task": self.task, "feature": self.feature, "discipline": self.target}
        return {kind: row for kind, row in rows.items() if row is not None}

    @property
    def subject(self) -> str:
        """The row that it is about, empty if there is none."""
        return str(self.task or self.feature or self.target or "")


def decide_subject(policy: Policy, request: Request, rows: ProjectRows) -> Subject:
    """Return the subject of the requested session; a task implies its feature and its discipline.

    If the `next` task is requested, the subject has none yet. Raises `UsageError` for unknown
    names, and for options that the recipe does not use or that contradict the task's row. Raises
    `ProjectError` for invalid rows.
    """
    base = _base(policy, request.recipe, rows)
    targets = policy.targets(base)
    kinds = (*targets, "feature") if "task" in targets else tuple(targets)
    _refuse_useless(request, kinds)
    given = {"task": request.task, "feature": request.feature, "discipline": request.discipline}
    for kind, need in targets.items():
        comes = kind == "task" and request.next
        if need == REQUIRED and given[kind] in (None, "") and not comes:
            raise UsageError(
                f'the recipe "{request.recipe}" needs a {kind}', f"add {OPTIONS[kind]}"
            )
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


def claims_task(policy: Policy, subject: Subject) -> bool:
    """Return whether a session claims its own task: it works on it, or its recipe may close it.

    Neither the session's kits nor removed tools make a difference.
    """
    if subject.task is None:
        return False
    closing = (policy.bindings(subject.base, kit).get(CLOSING_TOOL, {}) for kit in policy.kits)
    works = policy.profile(subject.base) == WORKING
    return works or any(names_own_row(rules, ("task",)) for rules in closing)


def project_facts(
    root: Path, work_tree: Path, identity: tuple[str | None, str | None]
) -> dict[str, str | None]:
    """Return the identity of a context's project: its location, title and creation day.

    Raises `ProjectError` if its server was generated for another engine than the configured one.
    """
    refuse_other_engine(root)
    return {
        "root": str(root),
        "title": identity[0],
        "created": identity[1],
        "work_tree": str(work_tree),
        "database": database_location(root),
    }


def context_facts(
    policy: Policy,
    subject: Subject,
    kits: Sequence[str],
    session_id: str,
    project: Mapping[str, object],
    brief: Mapping[str, object] = NO_BRIEF,
) -> dict[str, Any]:
    """Return the whole context of a session, by key; `kits` are those with a server.

    `project` identifies the project, and `brief` holds the user's settings for the brief.
    """
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
        "brief": brief,
    }
    tables: dict[str, dict[str, Any]] = {
        key: {} for key in ("enabled_tools", "disabled_tools", "narrowed_arguments", "bindings")
    }
    for kit, every in policy.every_tool.items():
        if kit not in kits:
            continue
        session = Session(kit, facts, subject.base, policy, None)
        enabled = [name for name in every if name in session.enabled]
        narrowed = policy.recipes[subject.base].narrowed_arguments
        tables["enabled_tools"][kit] = enabled
        tables["disabled_tools"][kit] = [name for name in every if name not in session.enabled]
        tables["narrowed_arguments"][kit] = {
            name: [*narrowed[key]] for name in enabled if (key := f"{kit}:{name}") in narrowed
        }
        bound = {name: _own_rows(session, name) for name in enabled}
        tables["bindings"][kit] = {name: rows for name, rows in bound.items() if rows}
    return {**facts, **tables}


def _own_rows(session: Session, tool: str) -> dict[str, int | str]:
    """Return the arguments of a tool that can name only the session's own row, with the row."""
    return {
        argument: bound.value
        for argument, bound in session.filled_arguments(tool).items()
        if bound.reach == OWN
    }


def _base(policy: Policy, recipe: str, rows: ProjectRows) -> str:
    """Return the recipe of the policy that rules: the one of this name, or the base of a row."""
    known = policy.recipes
    if recipe in known:
        return recipe
    base = rows.base(recipe)
    profiles = [name for name in known if not known[name].base]
    if isinstance(base, str) and base in profiles:
        return base
    if base is not None:
        raise ProjectError(
            f'the recipe "{one_line(recipe)}" in recipe_configs has the unknown '
            f'base "{one_line(str(base))}"',
            suggestion(str(base), profiles, "the bases"),
        )
    names = (*known, *rows.names("recipe_configs"))
    hint = suggestion(recipe, names, "the recipes", "ralphgen session create --help")
    raise UsageError(f'there is no recipe "{one_line(recipe)}"', hint)


def _refuse_useless(request: Request, kinds: Sequence[str]) -> None:
    """Raise `UsageError` for a row that a session of the recipe is never about."""
    for kind, given in (("task", request.task), ("feature", request.feature)):
        if given not in (None, "") and kind not in kinds:
            raise UsageError(
                f'the recipe "{request.recipe}" does not accept a {kind}', f'remove "--{kind}"'
            )
    if request.next and "task" not in kinds:
        text = f'the recipe "{request.recipe}" does not accept a task'
        raise UsageError(text, 'remove "--next"')
    if request.next and request.task is not None:
        raise UsageError('"--task" and "--next" exclude each other', "remove one of them")


def _refuse_unknown(request: Request, rows: ProjectRows) -> None:
    for kind, name in (("feature", request.feature), ("discipline", request.discipline)):
        names = rows.names(f"{kind}s")
        if name and name not in names:
            hint = suggestion(name, names, f"the {kind}s", f"ralphgen {kind} list")
            hint = hint if names else f'create one with "ralphgen {kind} add NAME"'
            raise MissingError(f'there is no {kind} "{one_line(name)}"', hint)


def no_tasks(kits: Iterable[str]) -> UsageError:
    """Return the error of a project with these kits, which has no tasks."""
    from ralphgen.kits.registry import any_database

    listed = ", ".join(f'"{kit}"' for kit in (TASKS, *kits) if not any_database([kit]))
    return UsageError(
        f'this project has no tasks: it has no kit "{TASKS}"',
        f'set kits = [{listed}] in {CONFIG}, then run "ralphgen init"',
    )


def no_task_error(task: int, rows: ProjectRows) -> MissingError:
    """Return the error of a task that does not exist."""
    near = rows.nearest_tasks(task, NEAREST)
    words = "the nearest task is" if len(near) == 1 else "the nearest tasks are"
    listed = f'{words} {", ".join(map(str, near))}; "ralphgen task list" lists them'
    hint = listed if near else 'create one with "ralphgen task add"'
    return MissingError(f"there is no task {task}", hint)


def _of_task(task: int, about: Subject, rows: ProjectRows) -> Subject:
    """Return the subject with the feature and the discipline of its task."""
    row = rows.task(task)
    if row is None:
        raise no_task_error(task, rows)
    feature, discipline = row
    for kind, named, found in (
        ("feature", about.feature, feature),
        ("discipline", about.discipline, discipline),
    ):
        if named not in (None, found):
            own, other = one_line(found), one_line(str(named))
            raise UsageError(
                f'task {task} belongs to the {kind} "{own}", not "{other}"', f'remove "--{kind}"'
            )
    return Subject(about.recipe, about.base, task, feature, discipline, about.target)
