"""The HTML of the pages and of each section: every value that varies is escaped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ralphgen.board.project import ProjectHeading
from ralphgen.board.requests import ActionResult
from ralphgen.errors import Problem, RalphgenError
from ralphgen.rendering.templates import template_folder

SECTIONS: Mapping[str, str] = {
    "attention": "Waits for a person",
    "overview": "Overview",
    "matrix": "Who sees what",
    "status": "How it stands",
    "record": "Who did what",
    "drift": "Drift",
    "knowledge": "Features and learnings",
    "specs": "Specs",
    "disciplines": "Disciplines",
    "sessions": "Sessions",
    "diagnosis": "Doctor",
}
"""The sections in the order of a report, with their titles."""


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """A page of the board, at an address of its own; that of one below a place begins with it.

    `assets` are the names of scripts that it has besides those of every page.
    """

    address: str
    title: str
    sections: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()

    @property
    def within(self) -> str:
        """Return the address of the place that this is, is below or belongs to."""
        first = f"/{self.address[1:].partition('/')[0]}"
        return BELONG.get(first, first)


PLACES = (
    BoardPlace("/", "Overview", ("attention", "overview")),
    BoardPlace("/tasks", "Tasks", ("status",)),
    BoardPlace("/sessions", "Sessions", ("sessions", "record")),
    BoardPlace("/knowledge", "Knowledge", ("knowledge", "specs", "disciplines")),
    BoardPlace("/access", "Access", ("matrix",)),
    BoardPlace("/health", "Health", ("drift", "diagnosis")),
)
"""The places in the order of their links."""
BELONG = {"/loop": "/sessions"}
"""What has an address of its own and no link among those of the places, and where it belongs."""
OF_WORK = ("/tasks", "/knowledge")
"""Those that a project without tasks, features and disciplines does not have."""
UNHURRIED = ("attention",)
"""Sections for which no page waits long: the server has to be generated to compare it."""
PLACE_OF = {section: place for place in PLACES for section in place.sections}
HALVES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
TEMPLATES = {
    "attention": "attention.html.jinja",
    "overview": "overview.html.jinja",
    "knowledge": "knowledge.html.jinja",
    "specs": "specs.html.jinja",
    "matrix": "matrix.html.jinja",
    "status": "status.html.jinja",
    "record": "record.html.jinja",
    "drift": "drift.html.jinja",
    "disciplines": "disciplines.html.jinja",
    "sessions": "sessions.html.jinja",
    "diagnosis": "diagnosis.html.jinja",
}


def beginning(place: BoardPlace, heading: ProjectHeading, change: int) -> str:
    """Return a page up to its sections; `change` is the number of the last change that it shows."""
    return html(
        "page_beginning.html.jinja",
        title=heading.title,
        here=place,
        places=places_of(heading),
        change=change,
    )


def places_of(heading: ProjectHeading) -> list[BoardPlace]:
    """Return the places that a project has."""
    return [one for one in PLACES if has(heading, one)]


def rest(sections: Iterable[Markup], outcome: ActionResult | None) -> str:
    """Return a page from its sections on."""
    told = "" if outcome is None else notice(outcome)
    return html("page_rest.html.jinja", sections=sections, notice=told)


def has(heading: ProjectHeading, place: BoardPlace) -> bool:
    """Return whether a project has a place."""
    return not heading.tables_alone or place.within not in OF_WORK


def section(name: str, values: Mapping[str, object]) -> Markup:
    """Return one section."""
    return html(TEMPLATES[name], name=name, title=SECTIONS[name], linked=True, **values)


def problem(name: str, error: BaseException) -> Markup:
    """Return the section that says why it cannot be shown."""
    problems: Iterable[Problem] = [
        Problem(f"this cannot be shown: {type(error).__name__}: {error}", "please report this bug")
    ]
    if isinstance(error, RalphgenError):
        problems = error.problems
    title, heeds = SECTIONS.get(name, "What is wrong"), _heeded(name)
    return html("problem.html.jinja", name=name, title=title, problems=problems, heeds=heeds)


def late(name: str, place: BoardPlace) -> Markup:
    """Return the section that says that it is being loaded."""
    title, heeds = SECTIONS.get(name, place.title), _heeded(name)
    return html("late.html.jinja", name=name, title=title, at=place.address, heeds=heeds)


def refusal(place: BoardPlace, asked: str, text: str, known: Iterable[BoardPlace]) -> Markup:
    """Return the section that says why `asked`, an address, has no page, and where to go."""
    near = [one for one in known if one.address in ("/", place.within)]
    return html("refusal.html.jinja", title=place.title, asked=asked, text=text, near=near)


def _heeded(name: str) -> str:
    """Return the sections with which one of an area is drawn anew, as long as it is not there."""
    return "" if name in SECTIONS else " ".join(SECTIONS)


def notice(outcome: ActionResult) -> Markup:
    """Return the outcome of an action."""
    return html("notice.html.jinja", outcome=outcome)


def html(template: str, **values: object) -> Markup:
    """Return a template filled with values, all of which it must know.

    Halves of surrogate pairs, as JSON and names of files can hold, are no UTF-8: each is U+FFFD.
    """
    filled = _templates().get_template(template).make_module(values).__html__()
    return cast("Markup", filled.translate(HALVES))


@cache
def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(template_folder() / "board", encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
