"""The page of the loop: starting one, watching it, and what is asked of it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.agents.loop import read_loops
from ralphgen.board.agents.options import LABELS, LIMITS, in_words_of_page
from ralphgen.board.agents.processes import StartedProcesses
from ralphgen.board.agents.start import start_choices
from ralphgen.board.agents.watch import LOOPS
from ralphgen.board.requests import ActionResult, fieldless, form_of, query_of
from ralphgen.board.web.desk import PageDesk, in_thread
from ralphgen.board.web.pages import BoardPlace, html
from ralphgen.errors import RalphgenError
from ralphgen.loop.record import ask_loops

PLACE = BoardPlace("/loop", "Loop")
FIELDS = ("agent", *LIMITS, "worktrees")
"""The fields of the form that starts one."""
DONE = {
    "pause": "it starts no new sessions; running sessions continue",
    "resume": "it continues",
    "stop": "it starts no new sessions, and ends when the running ones have ended",
    "stop-now": "its agents end, and their tasks are released",
}
"""What is told of each word that is asked of a loop."""


def loop_area(desk: PageDesk, started: StartedProcesses) -> Sequence[Route]:
    """Return the routes of the loop."""
    pages = LoopPages(desk, started)
    return [
        Route(PLACE.address, pages.page, methods=["GET"]),
        Route("/loop/start", pages.start, methods=["POST"]),
        Route("/loop/ask", pages.ask, methods=["POST"]),
    ]


class LoopPages:
    """What is answered at the addresses of the loop."""

    def __init__(self, desk: PageDesk, started: StartedProcesses) -> None:
        """Draw at the desk."""
        self._desk = desk
        self._root = desk.board.root
        self._started = started

    async def page(self, request: Request) -> Response:
        """Show the loop; where none runs, the form that starts one, as it was typed."""
        query = query_of(request)
        typed = tuple((name, query[name]) for name in FIELDS if name in query)

        def draw() -> Markup:
            loops = read_loops(self._root)
            now = loops.now
            running = now is not None and now.running
            again = dict(now.options) if now is not None else {}
            return html(
                "loop.html.jinja",
                view=loops,
                heeds=f"{LOOPS} record",
                choices=None if running else start_choices(self._root, ""),
                typed=dict.fromkeys(FIELDS, "") | (dict(typed) or again),
                labels=LABELS,
            )

        return await self._desk.page(PLACE, {"loop": draw}, typed, query.get("notice", ""))

    async def start(self, request: Request) -> Response:
        """Start a loop; what was typed stays where it cannot be started."""
        form = await form_of(request)
        started = await in_thread(partial(self._started.loop, form))
        typed = [] if started.outcome.ok else [(name, "".join(form.texts(name))) for name in FIELDS]
        return self._desk.answered(request, started.outcome, "/loop#loop", typed)

    async def ask(self, request: Request) -> Response:
        """Pass on what a person asks of a loop."""
        form = await form_of(request)
        outcome = await in_thread(partial(_asked, self._root, form.text("loop"), form.text("ask")))
        return self._desk.answered(request, outcome, "/loop#loop")


def _asked(root: Path, loop_id: str, word: str) -> ActionResult:
    try:
        ask_loops(root, word, loop_id)
    except RalphgenError as error:
        problems = in_words_of_page(fieldless(error.problems))
        return ActionResult(False, "the loop received no request", (), problems)
    return ActionResult(True, DONE[word])
