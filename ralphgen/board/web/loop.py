"""The page of the loop: what its records hold, starting one, and requests to it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.agents.options import LABELS, LIMITS, in_words_of_page, known_options
from ralphgen.board.agents.processes import StartedProcesses
from ralphgen.board.agents.start import start_choices
from ralphgen.board.agents.watch import LOOPS
from ralphgen.board.requests import ActionResult, FieldProblem, fieldless, form_of, query_of
from ralphgen.board.stored_text import line, moment
from ralphgen.board.web.desk import PageDesk, in_thread
from ralphgen.board.web.pages import BoardPlace, html
from ralphgen.errors import RalphgenError
from ralphgen.loop.record import StoredLoop, ask_loops, read_events, stored_loops
from ralphgen.loop.run import Event, duration, event_lines
from ralphgen.loop.trees import worktree_notes

LINES = 200  # of what has happened, the newest
OLDER = 5  # loops before the newest that are named
MOST_WORKERS = 1_000  # that are shown
LAST = 64 * 1024  # bytes at the end of a loop before it


@dataclass(frozen=True, slots=True)
class LoopWorker:
    """What a worker of a loop does: `session` is empty where it waits, `task` too for a review."""

    number: int
    session: str = ""
    task: str = ""
    title: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class ToldLine:
    """A line of what has happened."""

    number: int
    time: str
    text: str


@dataclass(frozen=True, slots=True)
class LoopView:
    """A loop: `state` is preparing, running, paused, stopping, ended or cut off, `reason` why.

    `options` are those it was started with, as a form has them, and `odd` names what stands among
    them and no loop writes. `outcomes` count its sessions,
    `spent` is what they cost as far as it is known, and `took` how long it has run.
    """

    loop_id: str
    state: str
    reason: str
    running: bool
    began: str
    took: str
    options: Mapping[str, str]
    odd: tuple[str, ...]
    workers: tuple[LoopWorker, ...]
    outcomes: tuple[tuple[str, int], ...]
    spent: str
    lines: tuple[ToldLine, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Loops:
    """The loop that runs, else the last one, None before the first; `older` are the others.

    `trees` says what work trees there are, and what waits in them for a person. `problems` are what
    in their files cannot be a loop's.
    """

    now: LoopView | None
    older: tuple[LoopView, ...]
    trees: tuple[str, ...]
    problems: tuple[FieldProblem, ...]


@dataclass(slots=True)
class _Course:
    """What the events of a loop come to, one after the other."""

    state: str = "preparing"
    reason: str = ""
    workers: dict[int, LoopWorker] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    spent: float | None = None

    def take(self, told: Event) -> None:
        """Take note of an event."""
        match told:
            case {"event": "begin", "workers": int(workers)}:
                self.state = "running"
                numbers = range(1, min(workers, MOST_WORKERS) + 1)
                self.workers = {number: LoopWorker(number) for number in numbers}
            case {"event": "session", "worker": int(worker), "session": session, "task": task}:
                about = "" if task is None else line(task)
                facts = (line(session), about, line(told.get("title")), line(told.get("time")))
                self.workers[worker] = LoopWorker(worker, *facts)
            case {"event": "end", "worker": int(worker), "outcome": str(outcome)}:
                self.workers[worker] = LoopWorker(worker)
                self.outcomes[line(outcome)] = self.outcomes.get(line(outcome), 0) + 1
                cost = told.get("cost_usd")
                if isinstance(cost, int | float):
                    with suppress(OverflowError):
                        self.spent = (self.spent or 0.0) + cost
            case {"event": "held"}:
                self.state = "paused"
            case {"event": "resumed"}:
                self.state = "running"
            case {"event": "stopping"}:
                self.state = "stopping"
            case {"event": "stop", "reason": reason}:
                self.state, self.reason = "ended", line(reason, 500)
                self.total(told)

    def total(self, told: Event) -> None:
        """Take what a loop says at its end that it came to: not all of its events may be known."""
        match told:
            case {"outcomes": dict(outcomes), "cost_usd": int(cost) | float(cost)}:
                counts = {line(word): count for word, count in outcomes.items()}
                if counts and all(type(count) is int for count in counts.values()):
                    self.outcomes = {word: count for word, count in counts.items() if count}
                with suppress(OverflowError):
                    self.spent = None if self.spent is None and not cost else float(cost)


def read_loops(root: Path) -> Loops:
    """Return the loops of the project in `root` on this machine."""
    stored = stored_loops(root)
    stored.sort(key=lambda one: (not one.running, bool(one.doubt)))  # the newest that runs first
    shown = [one for one in stored if not one.doubt][: OLDER + 1]
    views = [_view(one, read_events(one) if one is shown[0] else _ends(one)) for one in shown]
    problems = [_doubted(one) for one in stored if one.doubt]
    if views:
        problems += _odd(shown[0], views[0].odd)
    trees: tuple[str, ...] = ()
    with suppress(RalphgenError):  # no git, or no ledger
        trees = tuple(worktree_notes(root))
    now = views[0] if views else None
    return Loops(now, tuple(views[1:]), trees, tuple(problems))


def _doubted(stored: StoredLoop) -> FieldProblem:
    text = f'"{stored.path}" is locked as if a loop were running, but {stored.doubt}'
    return FieldProblem("", text, "remove the file; a running loop creates it again")


def _odd(stored: StoredLoop, names: Sequence[str]) -> Iterator[FieldProblem]:
    if names:
        labels = ", ".join(f'"{LABELS[name]}"' for name in names)
        text = f'"{stored.path}" has invalid values: {labels}'
        yield FieldProblem(
            "", text, "they are ignored; if you did not start this loop, remove the file"
        )


def _ends(stored: StoredLoop) -> Sequence[Event]:
    """Return the first events of a loop and the last ones; all where it was cut off."""
    events = read_events(stored, LAST)
    return events if events and events[-1]["event"] == "stop" else read_events(stored)


def _view(stored: StoredLoop, events: Sequence[Event]) -> LoopView:
    course = _Course()
    for told in events:
        course.take(told)
    if not stored.running and course.state != "ended":
        course.state, course.reason = "cut off", "its process ended without a reason"
        course.workers = {}
    start = events[0] if events else {}
    lines = [*_lines(events)]
    options, odd = known_options(start.get("options"))
    return LoopView(
        loop_id=stored.loop_id,
        state=course.state,
        reason=course.reason,
        running=stored.running,
        began=line(start.get("time")),
        took=_took(events, running=stored.running),
        options=options,
        odd=tuple(odd),
        workers=tuple(course.workers.values()) if course.state != "ended" else (),
        outcomes=tuple(course.outcomes.items()),
        spent="" if course.spent is None else f"${course.spent:,.2f}",
        lines=tuple(lines[: -LINES - 1 : -1]),
        left_out=max(0, len(lines) - LINES),
    )


def _lines(events: Sequence[Event]) -> Iterator[ToldLine]:
    number = 0
    for told in events:
        with suppress(LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            for text in event_lines(told):
                number += 1
                yield ToldLine(number, line(told.get("time")), line(text, 1_000))


def _took(events: Sequence[Event], *, running: bool) -> str:
    times = [moment(told.get("time")) for told in (*events[:1], *events[-1:])]
    known = [one.timestamp() for one in times if one is not None]
    if not known:
        return ""
    return duration(max(0.0, (time.time() if running else known[-1]) - known[0]))


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
