"""The frame of all pages: templates, sections, and the answers to actions."""

import asyncio
import json
import secrets
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from http import HTTPStatus
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from ralphgen.board.project import Board, ProjectHeading
from ralphgen.board.text import ActionResult, line, wants_json
from ralphgen.errors import Problem, RalphgenError
from ralphgen.rendering import template_folder
from ralphgen.terminal.console import show_crash

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
    """A page of the board, at its own address; a subpage's address begins with its parent's.

    `assets` are the names of its scripts in addition to those of every page.
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
    """Return the section with the error in place of its content."""
    problems: Iterable[Problem] = [
        Problem(f"this cannot be shown: {type(error).__name__}: {error}", "please report this bug")
    ]
    if isinstance(error, RalphgenError):
        problems = error.problems
    title, heeds = SECTIONS.get(name, "What is wrong"), _heeded(name)
    return html("problem.html.jinja", name=name, title=title, problems=problems, heeds=heeds)


def late(name: str, place: BoardPlace) -> Markup:
    """Return the placeholder of a section that is being loaded."""
    title, heeds = SECTIONS.get(name, place.title), _heeded(name)
    return html("late.html.jinja", name=name, title=title, at=place.address, heeds=heeds)


def refusal(place: BoardPlace, asked: str, text: str, known: Iterable[BoardPlace]) -> Markup:
    """Return the section that explains why the address `asked` has no page, with links."""
    near = [one for one in known if one.address in ("/", place.within)]
    return html("refusal.html.jinja", title=place.title, asked=asked, text=text, near=near)


def _heeded(name: str) -> str:
    """Return the sections whose updates also reload a section that is missing."""
    return "" if name in SECTIONS else " ".join(SECTIONS)


def notice(outcome: ActionResult) -> Markup:
    """Return the outcome of an action."""
    return html("notice.html.jinja", outcome=outcome)


def html(template: str, **values: object) -> Markup:
    """Return a template filled with values; an undefined variable is an error.

    Lone surrogates, which JSON and file names can contain, are not UTF-8: each becomes U+FFFD.
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


Result = TypeVar("Result")
Draw = Callable[[], Markup]
"""Draws a section; it is called in a thread, and may raise `RalphgenError`."""
MOST_KEPT = 64
MOST_NEWS = 8
PATIENCE = 1.0
"""Seconds after which the page goes out without a section that is not there yet."""
REFUSALS = {
    "Not Found": "there is nothing at this address",
    "Method Not Allowed": "this address accepts only forms",
}
"""By the words of the framework, what a person is told."""
LONGEST = 200  # characters of an address that are shown
BRIEFLY = 0.1
"""Seconds that it waits at the end for sections that are begun after the others."""


class Notices:
    """Outcomes by a random id, each returned once; the oldest unclaimed ones are dropped."""

    def __init__(self) -> None:
        """Start empty."""
        self._kept: OrderedDict[str, ActionResult] = OrderedDict()

    def keep(self, outcome: ActionResult) -> str:
        """Return the id of the stored outcome."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = outcome
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return key

    def take(self, key: str) -> ActionResult | None:
        """Return the outcome of an id and remove it; None if there is none."""
        return self._kept.pop(key, None)


class PageDesk:
    """Renders the pages of a project's board, each section once for all waiting requests.

    Each area of the board uses it, and adds its own routes. All of it belongs to the event loop.
    Processes that an area has started are known to all, through `started`.
    """

    def __init__(self, board: Board) -> None:
        """Start with nothing drawn."""
        self.board = board
        self._notices = Notices()
        self._news: deque[ActionResult] = deque(maxlen=MOST_NEWS)
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[tuple[str, Hashable], asyncio.Task[Markup]] = {}
        self._late: set[asyncio.Task[Any]] = set()

    async def page(
        self,
        place: BoardPlace,
        sections: Mapping[str, Draw],
        query: Hashable,
        outcome: ActionResult | str | None = None,
        status: int = 200,
    ) -> Response:
        """Return a page with each of its sections that is ready in time.

        `query` are the parameters of the sections: equal queries wait for the same rendering. The
        `outcome` is shown; a string is the id of a stored one.
        """
        kept = self._notices.take(outcome) if isinstance(outcome, str) else outcome
        if kept is None and self._news:
            kept = self._news.popleft()
        await self.look()
        number, _ = self.board.changed_since(0)
        heading = await self._heading()
        if not has(heading, place):
            raise HTTPException(404, "this project has no tasks, features or disciplines")
        begun = beginning(place, heading, number)
        parts = self._parts(begun, place, sections, query, kept)
        return StreamingResponse(parts, status, media_type="text/html")

    async def _parts(
        self,
        begun: str,
        place: BoardPlace,
        sections: Mapping[str, Draw],
        query: Hashable,
        outcome: ActionResult | None,
    ) -> AsyncIterator[str]:
        """Yield a page: first the part that a browser can paint, then its rendered sections."""
        yield begun
        drawing = await self._begun(sections, query)
        drawn = [
            task.result() if task.done() else late(name, place)
            for name in sections
            for task in [drawing[name]]
        ]
        yield rest(drawn, outcome)

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answer a request without a page: JSON for a program, else the reason and links."""
        if not isinstance(error, HTTPException):
            raise error
        asked = line(request.url.path, LONGEST)
        text = REFUSALS.get(error.detail, error.detail)
        if wants_json(request):
            answer = json_answer(asdict(ActionResult(False, text)), error.status_code)
        else:
            heading = await self._heading()
            found = "Not found" if error.status_code == HTTPStatus.NOT_FOUND else "Not answered"
            place = BoardPlace(request.url.path, found)
            drawn = refusal(place, asked, text, places_of(heading))
            number, _ = self.board.changed_since(0)
            whole = beginning(place, heading, number) + rest([drawn], None)
            answer = HTMLResponse(whole, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    async def _begun(
        self, sections: Mapping[str, Draw], query: Hashable
    ) -> Mapping[str, asyncio.Task[Markup]]:
        """Return the drawings of sections when they are done, or late; the unhurried come last."""
        found: dict[str, asyncio.Task[Markup]] = {}
        for unhurried, patience in ((False, PATIENCE), (True, BRIEFLY)):
            names = [name for name in sections if (name in UNHURRIED) is unhurried]
            found |= {name: self.drawn(name, query, sections[name]) for name in names}
            if names:
                await asyncio.wait({*found.values()}, timeout=patience)
        return found

    async def _heading(self) -> ProjectHeading:
        """Return the project's heading, with its folder's name if the title takes too long."""
        titled = self._going_on(in_thread(self.board.heading))
        await asyncio.wait({titled}, timeout=PATIENCE)
        return titled.result() if titled.done() else ProjectHeading(self.board.root.name)

    def tell(self, outcome: ActionResult) -> None:
        """Show an unclaimed outcome on the next page; may be called in any thread."""
        self._news.append(outcome)

    async def look(self) -> None:
        """Check for changes; a slow check is announced later."""
        await asyncio.wait({self._going_on(in_thread(self.board.check))}, timeout=PATIENCE)

    def drawn(self, name: str, query: Hashable, draw: Draw) -> asyncio.Task[Markup]:
        """Return the next drawing of a section, shared by all requests until it begins."""
        key = name, query
        if key not in self._waiting:
            self._waiting[key] = self._going_on(self._draw(name, query, draw))
        return self._waiting[key]

    def answered(
        self,
        request: Request,
        outcome: ActionResult,
        address: str,
        shown: Iterable[tuple[str, str]] = (),
    ) -> Response:
        """Answer with the outcome as JSON, or redirect to a page, which shows it once.

        The address may end in a section; `shown` is what the page is asked for.
        """
        if wants_json(request):
            return json_answer(asdict(outcome))
        path, sign, section = address.partition("#")
        query = urlencode([*shown, ("notice", self._notices.keep(outcome))])
        return RedirectResponse(f"{path}?{query}{sign}{section}", 303)

    def _going_on(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run work to its end, even if the request ends."""
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return task

    async def _draw(self, name: str, query: Hashable, draw: Draw) -> Markup:
        """Return a section, or why there is none; the same section is drawn once at a time."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            del self._waiting[name, query]
            (drawn,) = await asyncio.gather(in_thread(draw), return_exceptions=True)
        if isinstance(drawn, Markup):
            return drawn
        if not isinstance(drawn, RalphgenError):
            show_crash(type(drawn), drawn, drawn.__traceback__)
        return problem(name, drawn)


def json_answer(value: object, status: int = 200) -> Response:
    """Return JSON in ASCII: a lone surrogate, which a name can contain, is not UTF-8."""
    return Response(json.dumps(value), status, media_type="application/json")


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return or raise the result of `work`.

    The work continues if no request waits for it any more, but ends with the process: a pool's
    threads would first have to finish.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()
    Thread(target=_run, args=(work, future), daemon=True).start()
    return await asyncio.wrap_future(future)


def _run(work: Callable[[], Result], future: "Future[Result]") -> None:
    def pass_on(
        _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Pass any exception to the waiting requests."""
        if error is not None:
            future.set_exception(error)
        return True

    with ExitStack() as stack:
        stack.push(pass_on)
        future.set_result(work())
