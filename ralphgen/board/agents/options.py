"""The options with which a loop is started, as the form has them, and refusals in its words."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ralphgen.board.requests import FieldProblem
from ralphgen.board.stored_text import line
from ralphgen.errors import UsageError
from ralphgen.loop.run import LEAST_COST, MOST_PARALLEL, parse_duration

HINT = "hint: "
SAYS = "error: "  # before the first sentence of a refusal
LIMITS = ("parallel", "max_tasks", "max_cost", "max_time", "review_every")
"""The options that take a value, as the form's fields."""
LABELS = {
    "agent": "Agent",
    "parallel": "Agents at once",
    "max_tasks": "Sessions on tasks at most",
    "max_cost": "US dollars at most",
    "max_time": "Time at most",
    "review_every": "A review after so many tasks",
    "worktrees": "Each agent in a work tree of its own",
    "task": "Task",
    "recipe": "Recipe",
    "discipline": "Discipline, if not the task's own",
}
"""By the name of an option of a command, what stands beside its field."""
WORDS = {
    "--task N, or --next": '"Task"',
    '"ralphgen task list" lists them': '"Tasks" lists them',
    '"ralphgen loop" starts one': "the form below starts one",
}
"""By what a command says, what a page says in its place."""
OPTION = re.compile(r'"?--([a-z][a-z-]*)"?')


def limit_problems(name: str, given: str) -> tuple[FieldProblem, ...]:
    """Return why an option cannot have this value, in the words of the form; none where it can."""
    label, shown = LABELS[name], line(given)
    if name == "max_time":
        try:
            parse_duration(given)
        except UsageError as error:
            return (FieldProblem(name, f'"{label}": {error.problems[0].text}'),)
        return ()
    if name == "max_cost":
        text = f'"{label}" must be at least {LEAST_COST}, such as 20 or 7.5, not "{shown}"'
        return () if _amount(given) >= LEAST_COST else (FieldProblem(name, text),)
    most = MOST_PARALLEL if name == "parallel" else 0
    number = int(given) if re.fullmatch("[0-9]{1,9}", given) else 0
    if number and (not most or number <= most):
        return ()
    until = f"from 1 to {most}" if most else "of at least 1"
    return (FieldProblem(name, f'"{label}" must be a whole number {until}, not "{shown}"'),)


def known_options(found: object) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the options in a loop's first event as the form has them, and those no loop writes."""
    given = found if isinstance(found, dict) else {}
    named = {name: given[name] for name in ("agent", *LIMITS, "worktrees") if name in given}
    said = {name: value for name, value in named.items() if value not in (None, "", False)}
    odd = [name for name, value in said.items() if not _can_be(name, value)]
    return {name: line(value) for name, value in said.items() if name not in odd}, odd


def refusals(said: Sequence[str]) -> tuple[FieldProblem, ...]:
    """Return what a command says of why it does nothing, in the words of the page."""
    first = next((at for at, one in enumerate(said) if one.startswith(SAYS)), 0)
    problems: list[FieldProblem] = []
    for one in said[first:]:
        if one.startswith(HINT) and problems:
            problems[-1] = FieldProblem("", problems[-1].text, one.removeprefix(HINT))
        else:
            problems.append(FieldProblem("", one.removeprefix(SAYS)))
    return in_words_of_page(problems)


def in_words_of_page(problems: Iterable[FieldProblem]) -> tuple[FieldProblem, ...]:
    """Return problems with fields and pages where a command names its options and others."""
    return tuple(FieldProblem(one.field, _worded(one.text), _worded(one.hint)) for one in problems)


def _worded(text: str) -> str:
    for said, told in WORDS.items():
        text = text.replace(said, told)
    return OPTION.sub(_field, text)


def _field(found: re.Match[str]) -> str:
    label = LABELS.get(found[1].replace("-", "_"))
    return found[0] if label is None else f'"{label}"'


def _amount(given: str) -> float:
    """Return an amount; less than any where the text is none."""
    try:
        amount = float(given)
    except ValueError:
        return -math.inf
    return amount if math.isfinite(amount) else -math.inf


def _can_be(name: str, value: object) -> bool:
    """Return whether a loop can have been started with this."""
    if name == "worktrees":
        return value is True
    if name in ("agent", "max_time"):
        return isinstance(value, str) and (name == "agent" or not limit_problems(name, value))
    kind = int | float if name == "max_cost" else int
    return isinstance(value, kind) and not limit_problems(name, str(value))
