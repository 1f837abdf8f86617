"""Renders pages from templates, and answers requests with pages, parts of pages and results."""

import json
import secrets
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ralphgen.agents.edits import ClashError
from ralphgen.board.live import Board, has_tables_alone, in_thread, project_title
from ralphgen.board.text import ActionResult, Form, form_of, line, moment, query_of, wants_json
from ralphgen.errors import Problem, RalphgenError
from ralphgen.rendering import template_folder
from ralphgen.runtime.errors import ToolError

HALVES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
MOST_KEPT = 64  # results that wait for their page
MOST_NEWS = 8  # results that no request waits for
MACROS = ("ui", "forms", "charts", "diff")
TINTS = 8  # colours of disciplines
MINUTE = 60  # seconds
AGES = ((86_400, "d"), (3_600, "h"), (MINUTE, "min"))
FRAME, BADGE, SAID = "page.html.jinja", "badge", "said"  # of all pages, and its own parts
OF_ALL = (("/agents", "Agents"), ("/project", "Project"))
PLACES = (("/", "Inbox"), ("/tasks", "Tasks"), *OF_ALL)
NOTHING_CHANGED = "Nothing was changed"
NOTHING = "There is nothing at this address."


class Renderer(RendererHTML):
    """Renders images in the Markdown of agents as links."""

    def image(self, tokens: Sequence[Token], at: int, *rest: Any) -> str:
        """Return an image as a link with its text."""
        address = tokens[at].attrGet("src")
        text = self.renderInlineAsText(tokens[at].children or [], *rest) or address
        return Markup('<a href="{}">{}</a>').format(address, text)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}, renderer_cls=Renderer).enable("table")


def markdown(value: object) -> Markup:
    """Return a stored text as HTML without raw HTML; links tell no site where they were."""
    text = "" if value is None else str(value)
    html = _markdown().render(text.translate(HALVES))
    return Markup(html.replace("<a href=", '<a rel="noopener noreferrer" href='))


def local(value: object) -> datetime | None:
    """Return a stored time in the time zone of this machine; None if it is invalid."""
    found = moment(value)
    return None if found is None else found.astimezone()


def clock(value: object, form: str = "%H:%M") -> str:
    """Return a stored time as hours and minutes here, or the text itself if it is not one."""
    found = local(value)
    return line(value) if found is None else found.strftime(form)


def exact(value: object) -> str:
    """Return a stored time as date and time here, or the text itself if it is not one."""
    return clock(value, "%Y-%m-%d %H:%M:%S")


def ago(value: object) -> str:
    """Return how long ago a stored time is, such as "2 h ago", or the text if it is not one."""
    found = local(value)
    if found is None:
        return line(value)
    seconds = (datetime.now(found.tzinfo) - found).total_seconds()
    ages = (f"{int(seconds // unit)} {name} ago" for unit, name in AGES if seconds >= unit)
    return next(ages, "now")


def took(seconds: float | None) -> str:
    """Return a duration, such as "12 min" or "1 h 5 min"; empty if it is unknown."""
    if seconds is None or seconds < MINUTE:
        return "" if seconds is None else f"{int(seconds)} s"
    hours, minutes = divmod(int(seconds // MINUTE), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def tint(name: object) -> str:
    """Return the class of the colour of a discipline, always the same for a name."""
    return f"tint-{sha256(str(name).encode('utf-8', 'surrogateescape')).digest()[0] % TINTS}"


@cache
def environment() -> Environment:
    """Return the templates of the board; an undefined variable is an error."""
    found = Environment(
        loader=FileSystemLoader(template_folder() / "board", encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for own in (markdown, clock, exact, ago, took, tint):
        found.filters[own.__name__] = own
    for name in MACROS:  # as globals: a block that is rendered alone sees no imports
        found.globals[name] = found.get_template(f"macros/{name}.html.jinja").module
    return found


def render(name: str, values: Mapping[str, object], part: str = "") -> str:
    """Return a template filled with values, or one block of it; 404 if it has no such block.

    Lone surrogates, which JSON and file names can contain, are not UTF-8: each becomes U+FFFD.
    """
    template = environment().get_template(FRAME if part in {BADGE, SAID} else name)
    if not part:
        return template.render(values).translate(HALVES)
    if part not in template.blocks:
        raise HTTPException(404, "the page has no such part")
    context = template.new_context(dict(values))
    return "".join(template.blocks[part](context)).translate(HALVES)


Read = Callable[[Request], Mapping[str, object]]
"""Returns the values of a template."""
Act = Callable[[Request, Form], ActionResult]
"""Does what a form asks for; `RalphgenError` is a refusal."""
ReadForm = Callable[[Request, Form | None, ActionResult | None], Mapping[str, object]]
"""Returns the values of a template, with the fields and the result of a refused form."""


class Desk:
    """Answers the requests of all screens in the event loop; `badge` counts what stops agents."""

    def __init__(self, board: Board, badge: Callable[[Board], int]) -> None:
        self.board = board
        self.root = board.root
        self._badge = badge
        self._kept: dict[str, ActionResult] = {}
        self._news: deque[ActionResult] = deque(maxlen=MOST_NEWS)

    def tell(self, outcome: ActionResult) -> None:
        """Show a result that no request waits for on the next page; may be called in any thread."""
        self._news.append(outcome)
        self.board.note("news")

    async def page(
        self,
        request: Request,
        template: str,
        read: Callable[[], Mapping[str, object]],
        *,
        title: str,
        outcome: ActionResult | None = None,
    ) -> Response:
        """Return a page, or the block of it that `part` in the query names.

        An `outcome` that is not ok keeps a form as typed: 409 if it is stale, else 400.
        """
        query = request.state.query = query_of(request)
        part = request.state.part = query.get("part", "")
        notice = outcome or self._kept.pop(query.get("notice", ""), None)
        if notice is None and part in {"", SAID} and self._news:
            notice = self._news.popleft()
        title = title.format(**request.path_params)
        values = request.state.page = {"title": title, "notice": notice}

        def draw() -> str:
            self.board.check(fully=True)  # a page shows the decision before it
            change, _ = self.board.changed_since(0)
            more = read() if part not in {BADGE, SAID} else {}
            frame = self._frame(request, part)
            return render(template, {**values, "change": change, "frame": frame, **more}, part)

        return HTMLResponse(await in_thread(draw), _status(outcome))

    def _frame(self, request: Request, part: str = "") -> dict[str, object]:
        """Return the values of the header; other parts of a page lack it."""
        alone, title, badge = has_tables_alone(self.root), self.root.name, 0
        if part not in {"", BADGE}:
            return {"alone": alone}
        with suppress(RalphgenError):
            title = project_title(self.root, title)
        with suppress(RalphgenError, ToolError):
            badge = 0 if alone else self._badge(self.board)
        here = f"/{request.url.path[1:].partition('/')[0]}"
        places = OF_ALL if alone else PLACES
        return {"project": title, "alone": alone, "places": places, "here": here, "badge": badge}

    def screen(self, path: str, template: str, title: str, read: Read) -> Route:
        """Return the route of a page, whose values `read` returns in a thread."""

        async def show(request: Request) -> Response:
            return await self.page(request, template, lambda: read(request), title=title)

        return Route(path, show, methods=["GET"])

    def decision(self, path: str, act: Act, then: str) -> Route:
        """Return the route of an action: JSON for a script, else a redirect to the result."""

        async def decide(request: Request) -> Response:
            form = await form_of(request)
            outcome = await in_thread(lambda: attempt(lambda: act(request, form)))
            return self.answered(request, outcome, then)

        return Route(path, decide, methods=["POST"])

    def form(
        self, path: str, template: str, title: str, act: Act, then: str, read: ReadForm
    ) -> Route:
        """Return the route of a form, and of its action: a plain form shows a refusal as typed."""

        async def answer(request: Request) -> Response:
            form, outcome = None, None
            if request.method == "POST":
                form = await form_of(request)
                outcome = await in_thread(lambda: attempt(lambda: act(request, form)))
                if outcome.ok or wants_json(request):
                    return self.answered(request, outcome, then)

            def values() -> Mapping[str, object]:
                return read(request, form, outcome)

            return await self.page(request, template, values, title=title, outcome=outcome)

        return Route(path, answer, methods=["GET", "POST"])

    def answered(self, request: Request, outcome: ActionResult, then: str) -> Response:
        """Answer with a result, as `decision` does."""
        if wants_json(request):
            return json_answer(asdict(outcome), _status(outcome))
        parts = request.path_params.items()
        named = {name: quote(str(one), "", errors="surrogateescape") for name, one in parts}
        key = secrets.token_urlsafe(12)
        self._kept[key] = outcome
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        path = outcome.then or then.format(**named)
        return RedirectResponse(f"{path}{'&' if '?' in path else '?'}notice={key}", 303)

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answer with the reasons of an error: JSON, plain text for a part, or a page."""
        values = getattr(request.state, "page", {"title": "Problem", "notice": None})
        status, problems = 500, [Problem(str(error), "")]
        if isinstance(error, HTTPException):
            status, values = error.status_code, {**values, "title": "Not found"}
            text = NOTHING if error.detail == "Not Found" else line(error.detail)
            problems = [Problem(text, "")]
        elif isinstance(error, RalphgenError):
            problems = [*error.problems]
        elif not isinstance(error, ToolError):  # the log has its traceback
            problems = [Problem(f"{type(error).__name__}: {error}", "please report this bug")]
        text = "; ".join(one.text for one in problems)
        if wants_json(request):
            answer: Response = json_answer(asdict(ActionResult(False, text)), status)
        elif getattr(request.state, "part", ""):
            answer = PlainTextResponse(text.translate(HALVES), status)
        else:
            frame = await in_thread(lambda: self._frame(request))
            values = {**values, "change": 0, "frame": frame, "problems": problems}
            answer = HTMLResponse(render("problem.html.jinja", values), status)
        answer.headers.update(getattr(error, "headers", None) or {})
        return answer


def attempt(act: Callable[[], ActionResult], failed: str = NOTHING_CHANGED) -> ActionResult:
    """Return the result of an action, also of a refused one."""
    try:
        return act()
    except RalphgenError as error:
        return ActionResult(False, failed, (), error.problems, isinstance(error, ClashError))
    except ToolError as error:
        return ActionResult(False, line(error, 500))


def _status(outcome: ActionResult | None) -> int:
    if outcome is None or outcome.ok:
        return 200
    return 409 if outcome.stale else 400


def json_answer(value: object, status: int = 200) -> Response:
    """Return JSON in ASCII: a lone surrogate, which a name can contain, is not UTF-8."""
    return Response(json.dumps(value), status, media_type="application/json")
