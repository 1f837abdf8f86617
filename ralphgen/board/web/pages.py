"""The HTML of the page and of each section: every value that varies is escaped."""

import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ralphgen.board.requests import Outcome
from ralphgen.errors import Problem, RalphgenError
from ralphgen.rendering.templates import template_folder

SECTIONS: Mapping[str, str] = {
    "matrix": "Who sees what",
    "status": "How it stands",
    "drift": "Drift",
    "disciplines": "Disciplines",
    "sessions": "Sessions",
    "diagnosis": "Doctor",
}
"""The sections in the order of the page, with their titles."""
HALVES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
TEMPLATES = {
    "matrix": "matrix.html.jinja",
    "status": "status.html.jinja",
    "drift": "drift.html.jinja",
    "disciplines": "disciplines.html.jinja",
    "sessions": "sessions.html.jinja",
    "diagnosis": "diagnosis.html.jinja",
}


def page(
    title: str, root: Path, change: int, sections: Mapping[str, Markup], outcome: Outcome | None
) -> str:
    """Return the whole page; `change` is the number of the last change that it shows."""
    return html(
        "page.html.jinja",
        title=title,
        root=str(root),
        change=change,
        sections=[(name, SECTIONS[name], text) for name, text in sections.items()],
        notice="" if outcome is None else notice(outcome),
    )


def section(name: str, values: Mapping[str, object]) -> Markup:
    """Return one section."""
    return html(TEMPLATES[name], name=name, title=SECTIONS[name], **values)


def problem(name: str, error: BaseException) -> Markup:
    """Return the section that says why it cannot be shown."""
    problems: Iterable[Problem] = [
        Problem(f"this cannot be shown: {type(error).__name__}: {error}", "please report this bug")
    ]
    if isinstance(error, RalphgenError):
        problems = error.problems
    return html("problem.html.jinja", name=name, title=SECTIONS[name], problems=problems)


def late(name: str) -> Markup:
    """Return the section that says that it is being loaded."""
    return html("late.html.jinja", name=name, title=SECTIONS[name])


def notice(outcome: Outcome) -> Markup:
    """Return the outcome of an action."""
    return html("notice.html.jinja", outcome=outcome)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(template_folder() / "board", encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shell_words=shlex.join)
    return environment


def html(template: str, **values: object) -> Markup:
    """Return a template filled with values, all of which it must know.

    Halves of surrogate pairs, as JSON and names of files can hold, are no UTF-8: each is U+FFFD.
    """
    filled = _templates().get_template(template).make_module(values).__html__()
    return cast("Markup", filled.translate(HALVES))
