"""What the board answers: its places, the sections of them, its assets, and the actions."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ralphgen.board import sections
from ralphgen.board.agents.processes import StartedProcesses
from ralphgen.board.project import Board
from ralphgen.board.requests import ActionResult, Form, form_of, number_of, query_of, wants_json
from ralphgen.board.sections import PageQuery
from ralphgen.board.views.record import RecordQuery
from ralphgen.board.web import pages
from ralphgen.board.web.agents import session_area
from ralphgen.board.web.desk import Draw, PageDesk, in_thread, json_answer
from ralphgen.board.web.events import Events
from ralphgen.board.web.loop import loop_area
from ralphgen.board.web.tasks import task_routes

ASSETS = Path(__file__).parents[1] / "assets"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
LARGEST_BODY = 256 * 1024


class Site:
    """The board over HTTP; `app` is what answers. All of it belongs to the event loop."""

    def __init__(self, board: Board) -> None:
        """Build the routes for a project's board."""
        self._board = board
        self._events = Events(board)
        self._desk = PageDesk(board)
        started = StartedProcesses(board.root, self._desk.tell)
        actions: Mapping[str, Callable[[Request], object]] = {
            "/regenerate": self._regenerate,
            "/diagnosis": self._diagnose,
            "/sessions/end": self._end,
            "/disciplines/check": self._check,
            "/disciplines/save": self._save,
            "/project": self._save_project,
        }
        routes = [
            *(Route(path, action, methods=["POST"]) for path, action in actions.items()),
            *session_area(self._desk, started),
            *loop_area(self._desk, started),
            *task_routes(self._desk),
            *(Route(place.address, partial(self._page, place)) for place in pages.PLACES),
            Route("/sections/{name}", self._section),
            Route("/assets/{name}", _asset),
            Route("/events", self._events, methods=["GET"]),
        ]
        handlers = {HTTPException: self._desk.refused}
        self.app = Starlette(routes=routes, exception_handlers=handlers, max_body_size=LARGEST_BODY)

    def close(self) -> None:
        """End the streams that are open."""
        self._events.close()

    async def _page(self, place: pages.BoardPlace, request: Request) -> Response:
        query = query_of(request)
        return await self._drawn_page(place, _page_query(query), query.get("notice", ""))

    async def _drawn_page(
        self,
        place: pages.BoardPlace,
        query: PageQuery,
        outcome: ActionResult | str,
        status: int = 200,
    ) -> Response:
        drawings = {name: self._drawing(name, query) for name in place.sections}
        return await self._desk.page(place, drawings, query, outcome, status)

    def _drawing(self, name: str, query: PageQuery) -> Draw:
        return lambda: pages.section(name, sections.view(self._board, name, query))

    async def _section(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in pages.SECTIONS:
            raise HTTPException(404)
        await self._desk.look()
        query = _page_query(query_of(request))
        drawn = self._desk.drawn(name, query, self._drawing(name, query))
        return HTMLResponse(await asyncio.shield(drawn))

    async def _regenerate(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "drift", sections.regenerate)

    async def _diagnose(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "diagnosis", sections.diagnose)

    async def _end(self, request: Request) -> Response:
        form = await form_of(request)
        act = partial(sections.end, session_id=form.text("session"))
        return await self._done(request, form, "sessions", act)

    async def _check(self, request: Request) -> Response:
        form = await form_of(request)
        problems = await in_thread(partial(sections.problems, self._board, form))
        return json_answer({"ok": not problems, "problems": [asdict(one) for one in problems]})

    async def _save(self, request: Request) -> Response:
        """Save; what was typed into a plain form stays there where it cannot be saved."""
        form = await form_of(request)
        outcome = await in_thread(partial(sections.save, self._board, form))
        query = PageQuery("" if outcome.ok else form.text("discipline"), typed=form)
        return await self._saved(request, form, "disciplines", outcome, query)

    async def _save_project(self, request: Request) -> Response:
        """Save title and description, as `_save` does."""
        form = await form_of(request)
        outcome = await in_thread(partial(sections.save_project, self._board, form))
        return await self._saved(request, form, "overview", outcome, PageQuery(typed=form))

    async def _saved(
        self, request: Request, form: Form, section: str, outcome: ActionResult, query: PageQuery
    ) -> Response:
        """Answer with the outcome, and what was typed if that could not be saved."""
        status = 409 if outcome.stale else 200
        if wants_json(request):
            return json_answer(asdict(outcome), status)
        if outcome.ok:
            return self._answered(request, form, section, outcome)
        return await self._drawn_page(pages.PLACE_OF[section], query, outcome, status)

    async def _done(
        self, request: Request, form: Form, section: str, act: Callable[[Board], ActionResult]
    ) -> Response:
        return self._answered(request, form, section, await in_thread(partial(act, self._board)))

    def _answered(
        self, request: Request, form: Form, section: str, outcome: ActionResult
    ) -> Response:
        """Answer with the outcome as JSON, or redirect to the section, which shows it once."""
        shown = [("discipline", name) for name in form.texts("discipline")]
        address = f"{pages.PLACE_OF[section].address}#{section}"
        return self._desk.answered(request, outcome, address, shown)


def _page_query(query: Mapping[str, str]) -> PageQuery:
    """Return what the fields behind the question mark ask for."""
    pages = (number_of(query.get(name, "")) for name in ("sessions", "changes"))
    return PageQuery(query.get("discipline", ""), RecordQuery(query.get("task", ""), *pages))


async def _asset(request: Request) -> Response:
    """Return a file of the assets; a name leads nowhere else."""
    name = request.path_params["name"]
    found = {path.name: path for path in ASSETS.iterdir() if path.suffix in KINDS}
    if name not in found:
        raise HTTPException(404)
    return Response(found[name].read_bytes(), media_type=KINDS[found[name].suffix])
