"""What the board answers: its pages, the sections of them, its assets, and the actions."""

import asyncio
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ralphgen.board.project import Board, PageQuery, ProjectHeading
from ralphgen.board.requests import ActionResult, Form, form_of, query_of, wants_json
from ralphgen.board.views.record import RecordQuery
from ralphgen.board.web import pages
from ralphgen.board.web.events import Events, in_thread
from ralphgen.errors import RalphgenError
from ralphgen.terminal.console import show_crash

Result = TypeVar("Result")
ASSETS = Path(__file__).parents[1] / "assets"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
LARGEST_BODY = 256 * 1024
MOST_KEPT = 64
PATIENCE = 1.0
"""Seconds after which the page goes out without a section that is not there yet."""


class Notices:
    """Outcomes by a random id, each given out once; the oldest go first where nobody asks."""

    def __init__(self) -> None:
        """Start empty."""
        self._kept: OrderedDict[str, ActionResult] = OrderedDict()

    def keep(self, outcome: ActionResult) -> str:
        """Return the id under which the outcome is kept."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = outcome
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return key

    def take(self, key: str) -> ActionResult | None:
        """Return the outcome of an id, kept no longer; None where there is none."""
        return self._kept.pop(key, None)


class Site:
    """The board over HTTP; `app` is what answers. All of it belongs to the event loop."""

    def __init__(self, board: Board) -> None:
        """Build the routes for a project's board."""
        self._board = board
        self._events = Events(board)
        self._notices = Notices()
        self._locks = {name: asyncio.Lock() for name in pages.SECTIONS}
        self._waiting: dict[tuple[str, PageQuery], asyncio.Task[Markup]] = {}
        self._late: set[asyncio.Task[Any]] = set()
        actions: Mapping[str, Callable[[Request], object]] = {
            "/regenerate": self._regenerate,
            "/diagnosis": self._diagnose,
            "/sessions/end": self._end,
            "/disciplines/check": self._check,
            "/disciplines/save": self._save,
        }
        routes = [
            *(Route(place.address, partial(self._page, place)) for place in pages.PLACES),
            Route("/sections/{name}", self._section),
            Route("/assets/{name}", _asset),
            Route("/events", self._events, methods=["GET"]),
            *(Route(path, action, methods=["POST"]) for path, action in actions.items()),
        ]
        self.app = Starlette(routes=routes, max_body_size=LARGEST_BODY)

    def close(self) -> None:
        """End the streams that are open."""
        self._events.close()

    async def _page(self, place: pages.BoardPlace, request: Request) -> Response:
        query = query_of(request)
        notice = self._notices.take(query.get("notice", ""))
        return await self._drawn_page(place, _page_query(query), notice)

    async def _drawn_page(
        self, place: pages.BoardPlace, query: PageQuery, outcome: ActionResult | None
    ) -> Response:
        """Return a page with each of its sections that is there in time."""
        await self._in_time(in_thread(self._board.check))  # a later change is announced later
        number, _ = self._board.changed_since(0)
        tasks = {name: self._drawn(name, query) for name in place.sections}
        titled = self._going_on(in_thread(self._board.heading))
        await asyncio.wait({titled, *tasks.values()}, timeout=PATIENCE)
        drawn = [task.result() if task.done() else pages.late(name) for name, task in tasks.items()]
        heading = titled.result() if titled.done() else ProjectHeading(self._board.root.name)
        if not pages.has(heading, place):
            raise HTTPException(404, "this project has no tasks, features and disciplines")
        return HTMLResponse(pages.page(place, heading, number, drawn, outcome))

    async def _section(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in pages.SECTIONS:
            raise HTTPException(404)
        await self._in_time(in_thread(self._board.check))
        drawn = self._drawn(name, _page_query(query_of(request)))
        return HTMLResponse(await asyncio.shield(drawn))

    async def _in_time(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for work, which goes on where it is late."""
        await asyncio.wait({self._going_on(work)}, timeout=PATIENCE)

    def _going_on(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Work that comes to its end, whoever waits for it."""
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return task

    def _drawn(self, name: str, query: PageQuery) -> asyncio.Task[Markup]:
        """Return the next drawing of a section, shared by all requests until it begins."""
        key = name, query
        if key not in self._waiting:
            self._waiting[key] = self._going_on(self._draw(name, query))
        return self._waiting[key]

    async def _draw(self, name: str, query: PageQuery) -> Markup:
        """Return a section, or why there is none; the same section is drawn once at a time."""
        async with self._locks[name]:
            del self._waiting[name, query]
            work = in_thread(lambda: pages.section(name, self._board.view(name, query)))
            (drawn,) = await asyncio.gather(work, return_exceptions=True)
        if isinstance(drawn, Markup):
            return drawn
        if not isinstance(drawn, RalphgenError):
            show_crash(type(drawn), drawn, drawn.__traceback__)
        return pages.problem(name, drawn)

    async def _regenerate(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "drift", self._board.regenerate)

    async def _diagnose(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "diagnosis", self._board.diagnose)

    async def _end(self, request: Request) -> Response:
        form = await form_of(request)
        act = partial(self._board.end, form.text("session"))
        return await self._done(request, form, "sessions", act)

    async def _check(self, request: Request) -> Response:
        form = await form_of(request)
        problems = await in_thread(partial(self._board.problems, form))
        return _json({"ok": not problems, "problems": [asdict(one) for one in problems]})

    async def _save(self, request: Request) -> Response:
        """Save; what was typed into a plain form stays there where it cannot be saved."""
        form = await form_of(request)
        outcome = await in_thread(partial(self._board.save, form))
        if outcome.ok or wants_json(request):
            return self._answered(request, form, "disciplines", outcome)
        place = pages.PLACE_OF["disciplines"]
        return await self._drawn_page(
            place, PageQuery(form.text("discipline"), typed=form), outcome
        )

    async def _done(
        self, request: Request, form: Form, section: str, act: Callable[[], ActionResult]
    ) -> Response:
        return self._answered(request, form, section, await in_thread(act))

    def _answered(
        self, request: Request, form: Form, section: str, outcome: ActionResult
    ) -> Response:
        """Answer with the outcome as JSON, or redirect to the page, which shows it once."""
        if wants_json(request):
            return _json(asdict(outcome))
        shown = [("discipline", name) for name in form.texts("discipline")]
        query = urlencode([*shown, ("notice", self._notices.keep(outcome))])
        return RedirectResponse(f"{pages.PLACE_OF[section].address}?{query}#{section}", 303)


def _page_query(query: Mapping[str, str]) -> PageQuery:
    """Return what the fields behind the question mark ask for."""
    pages = (_number(query.get(name, "")) for name in ("sessions", "changes"))
    return PageQuery(query.get("discipline", ""), RecordQuery(query.get("task", ""), *pages))


def _number(text: str) -> int:
    """Return the number of a page; that of the first where the text is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 1


def _json(value: object) -> Response:
    """Return JSON in ASCII: half of a surrogate pair, as a name can hold it, is no UTF-8."""
    return Response(json.dumps(value), media_type="application/json")


async def _asset(request: Request) -> Response:
    """Return a file of the assets; a name leads nowhere else."""
    name = request.path_params["name"]
    found = {path.name: path for path in ASSETS.iterdir() if path.suffix in KINDS}
    if name not in found:
        raise HTTPException(404)
    return Response(found[name].read_bytes(), media_type=KINDS[found[name].suffix])
