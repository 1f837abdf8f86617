"""The pages of sessions: one as it goes on, its undo with a preview, and starting another."""

import asyncio
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ralphgen.board.agents.processes import StartedProcesses
from ralphgen.board.agents.session import (
    is_known,
    read_session,
    stream_values,
    tree_of,
    work_of,
)
from ralphgen.board.agents.start import ready_tasks, start_choices
from ralphgen.board.agents.stream import StreamQuery
from ralphgen.board.agents.watch import stream_name, tree_name
from ralphgen.board.requests import ActionResult, FieldProblem, fieldless, form_of, query_of
from ralphgen.board.stored_text import line, paragraph
from ralphgen.board.web.desk import Draw, PageDesk, in_thread
from ralphgen.board.web.pages import BoardPlace, html
from ralphgen.emit.trust import hidden_in
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.record import shown, without_hidden
from ralphgen.ledger.undo import LineResult, RowResult, Undone, finish_undone, undo_session
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.store import MARK, ask_to_stop, has_stopped, stored_session

LONGEST_VALUE = 300  # characters of a value
MOST_UNDONE = 500  # rows and lines that are shown


@dataclass(frozen=True, slots=True)
class UndoneRow:
    """What comes of a row or a line: `done` in words, or why it is `left`, with both versions."""

    name: str
    done: str
    left: str
    session: str
    now: str


@dataclass(frozen=True, slots=True)
class UndoPreview:
    """What an undo would come to; `changed` counts what it sets back, `left` what it leaves.

    Of very many rows the first are shown, those that are left before the others.
    """

    changed: int
    left: int
    rows: tuple[UndoneRow, ...]
    more: int


def undo_preview(root: Path, session_id: str) -> UndoPreview:
    """Return what would come of the undo of a session; nothing is changed.

    Raises `UsageError` for a session that is not on record, and `ProjectError` where the ledger
    cannot be read.
    """
    return _preview(undo_session(root, session_id, dry_run=True), hidden_in(root))


def undo(root: Path, session_id: str) -> ActionResult:
    """Set back what a session has changed, after a backup; what others changed since is left."""
    try:
        if not session_id.isprintable():
            raise UsageError("invalid session id")
        found = undo_session(root, session_id, dry_run=True)
        if not found.changed:
            return ActionResult(not found.left, "nothing was undone", _told(root, found))
        finish_undone(root)
        backup = backed_up(root)
        found = undo_session(root, session_id)
    except RalphgenError as error:
        return ActionResult(False, "nothing was undone", (), fieldless(error.problems))
    noun = "row or line" if found.changed == 1 else "rows and lines"
    again = f'to redo it, undo the session "{one_line(found.session)}"'
    message = f"{found.changed:,} {noun} restored; {again}"
    return ActionResult(not found.left, message, (backup, *_told(root, found)))


def _told(root: Path, found: Undone) -> tuple[str, ...]:
    rows = _preview(found, hidden_in(root)).rows
    return tuple(f"{row.name} left: {row.left}" for row in rows if row.left)


def _preview(found: Undone, hidden: Collection[str]) -> UndoPreview:
    rows = [_undone_row(one, hidden) for one in found.rows]
    rows += [_line(one) for one in found.lines if not one.gone or one.left]
    rows.sort(key=lambda row: not row.left)
    left = sum(bool(row.left) for row in rows)
    return UndoPreview(
        found.changed, left, tuple(rows[:MOST_UNDONE]), max(0, len(rows) - MOST_UNDONE)
    )


def _undone_row(row: RowResult, hidden: Collection[str]) -> UndoneRow:
    key = row.key[0] if len(row.key) == 1 else row.key
    columns = f": {', '.join(row.columns)}" if row.done == "set back" else ""
    versions = ("", "")
    if row.done is None:
        both = (row.session, row.now)
        left, now = (_values(without_hidden(row.table, one, hidden)) for one in both)
        versions = left, now
    return UndoneRow(
        name=line(f"{row.table} {key}"),
        done=line(f"{row.done}{columns}") if row.done is not None else "",
        left=line(row.left),
        session=versions[0],
        now=versions[1],
    )


def _line(found: LineResult) -> UndoneRow:
    done = "put back" if found.put_back else "taken out"
    name = line(f"{found.file}: {found.line}")
    return UndoneRow(name, "" if found.left else done, line(found.left), "", "")


def _values(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "not there"
    return paragraph(json.dumps(shown(dict(values)), ensure_ascii=False), LONGEST_VALUE)


PATIENCE = 15.0  # seconds for an agent to clean up, and for its task to be given back
LOOK = 0.1  # seconds between two looks at whether that is done
PUT_BACK = "a running agent creates it again"
NOBODY = "no agent works in it without a terminal"


def stop_agent(root: Path, session_id: str, started: StartedProcesses) -> ActionResult:
    """End the agent of a session, whose task is given back; its record stays.

    Where the session's mark is gone, whoever watches its agent is ended, if this board started it.
    """
    stored = stored_session(root, session_id)
    if stored is not None and ask_to_stop(stored.folder):
        over = has_stopped(stored.folder, PATIENCE) and _is_over(session_id, started)
    elif started.end(session_id):
        over = _is_over(session_id, started)
    else:
        text = NOBODY if stored is not None else f'there is no session "{one_line(session_id)}"'
        problem = FieldProblem("", text, "end it where it was started")
        return ActionResult(False, "nothing was stopped", (), (problem,))
    if over:
        return ActionResult(True, "the agent has ended, and its task is released")
    late = "the agent was asked to end; this takes longer than usual"
    if stored is None:
        return ActionResult(True, late)
    mark = stored.folder / MARK
    return ActionResult(True, late, (f'if it does not end, remove "{mark}": {PUT_BACK}',))


def _is_over(session_id: str, started: StartedProcesses) -> bool:
    end = time.monotonic() + PATIENCE
    while started.runs(session_id) and time.monotonic() < end:
        time.sleep(LOOK)
    return not started.runs(session_id)


NEW_SESSION = "/sessions/new"
ACTIONS = ("end", "start", "stop", "undo")
"""What is sent to an address below that of sessions, and names none."""
TYPED = ("task", "recipe", "discipline", "agent")
PARTS = {
    "session": "session_session.html.jinja",
    "stream": "session_stream.html.jinja",
    "tree": "session_tree.html.jinja",
    "work": "session_work.html.jinja",
}
"""The sections of a session's page, in order, each with its template."""


def session_area(desk: PageDesk, started: StartedProcesses) -> Sequence[Route]:
    """Return the routes of sessions."""
    pages = SessionPages(desk, started)
    return [
        Route("/sessions/start", pages.start, methods=["POST"]),
        Route("/sessions/stop", pages.stop, methods=["POST"]),
        Route("/sessions/undo", pages.undo, methods=["POST"]),
        Route(NEW_SESSION, pages.new, methods=["GET"]),
        Route("/sessions/{session_id}", pages.page, methods=["GET"]),
        Route("/sessions/{session_id}/undo", pages.preview, methods=["GET"]),
        Route("/sessions/{session_id}/parts/{part}", pages.part, methods=["GET"]),
    ]


class SessionPages:
    """What is answered at the addresses of sessions."""

    def __init__(self, desk: PageDesk, started: StartedProcesses) -> None:
        """Draw at the desk."""
        self._desk = desk
        self._root = desk.board.root
        self._started = started

    async def page(self, request: Request) -> Response:
        """Show a session: what it is about, its stream, its files, and what it has done."""
        session_id = await self._named(request)
        query = query_of(request)
        asked = StreamQuery(_place(query.get("words")), _place(query.get("calls")))
        place = BoardPlace(_address(session_id), f"Session {session_id}")
        parts = self._parts(session_id, asked)
        return await self._desk.page(place, parts, (session_id, asked), query.get("notice", ""))

    async def part(self, request: Request) -> Response:
        """Show one section of a session's page."""
        session_id, name = await self._named(request), request.path_params["part"]
        query = query_of(request)
        asked = StreamQuery(_place(query.get("words")), _place(query.get("calls")))
        parts = self._parts(session_id, asked)
        if name not in parts:
            raise HTTPException(404)
        drawn = self._desk.drawn(name, (session_id, asked), parts[name])
        return HTMLResponse(await asyncio.shield(drawn))

    async def preview(self, request: Request) -> Response:
        """Show what would come of the undo of a session."""
        session_id = await self._named(request)
        place = BoardPlace(f"{_address(session_id)}/undo", f"Undo {session_id}")

        def draw() -> Markup:
            view = undo_preview(self._root, session_id)
            return html("session_undo.html.jinja", session_id=session_id, view=view)

        notice = query_of(request).get("notice", "")
        return await self._desk.page(place, {"undo": draw}, session_id, notice)

    async def new(self, request: Request) -> Response:
        """Show the form that starts an agent."""
        query = query_of(request)
        typed = {name: query.get(name, "") for name in TYPED}

        def draw() -> Markup:
            choices = start_choices(self._root, typed["task"])
            ready = ready_tasks(self._root)
            return html("session_start.html.jinja", choices=choices, typed=typed, ready=ready)

        place = BoardPlace(NEW_SESSION, "Start an agent")
        asked = tuple(typed.values())
        return await self._desk.page(place, {"start": draw}, asked, query.get("notice", ""))

    async def start(self, request: Request) -> Response:
        """Start an agent; what was chosen stays where it cannot be started."""
        form = await form_of(request)
        started = await in_thread(partial(self._started.launch, form))
        if started.begun:
            address = f"{_address(started.begun)}#session"
            return self._desk.answered(request, started.outcome, address)
        if started.outcome.ok:
            return self._desk.answered(request, started.outcome, "/sessions#sessions")
        typed = [(name, form.text(name)) for name in TYPED]
        return self._desk.answered(request, started.outcome, f"{NEW_SESSION}#start", typed)

    async def stop(self, request: Request) -> Response:
        """End the agent of a session."""
        session_id = (await form_of(request)).text("session")
        outcome = await in_thread(partial(stop_agent, self._root, session_id, self._started))
        return self._desk.answered(request, outcome, f"{_address(session_id)}#session")

    async def undo(self, request: Request) -> Response:
        """Take back what a session has changed."""
        session_id = (await form_of(request)).text("session")
        outcome = await in_thread(partial(undo, self._root, session_id))
        return self._desk.answered(request, outcome, f"{_address(session_id)}/undo#undo")

    async def _named(self, request: Request) -> str:
        """Return the id in the address, of a session that there is."""
        session_id: str = request.path_params["session_id"]
        if session_id in ACTIONS:
            raise HTTPException(405)
        if not await in_thread(partial(is_known, self._root, session_id)):
            raise HTTPException(404, "there is no such session")
        await in_thread(partial(self._desk.board.follow, session_id))
        return session_id

    def _parts(self, session_id: str, asked: StreamQuery) -> Mapping[str, Draw]:
        def values(name: str) -> Mapping[str, object]:
            if name == "stream":
                return stream_values(self._root, session_id, asked)
            if name == "session":
                found = read_session(self._root, session_id, ours=self._started.runs(session_id))
                return {"view": found, "said": self._started.said(session_id)}
            read = tree_of if name == "tree" else work_of
            return {"view": read(self._root, session_id)}

        def drawing(name: str, heeds: str) -> Draw:
            at = f"{_address(session_id)}/parts/{name}"
            facts = {"session_id": session_id, "heeds": heeds, "at": at}
            return lambda: html(PARTS[name], **facts, **values(name))

        stream = stream_name(session_id)
        heeded = {
            "session": f"{stream} sessions record",
            "stream": stream,
            "tree": tree_name(session_id),
            "work": "record",
        }
        return {name: drawing(name, heeds) for name, heeds in heeded.items()}


def _address(session_id: str) -> str:
    return f"/sessions/{quote(session_id, safe='', errors='surrogateescape')}"


def _place(text: str | None) -> int | None:
    """Return a place in a log; None for its end, and where the text is none."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,15}", text) else None
