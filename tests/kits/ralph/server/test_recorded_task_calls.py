"""Each call that touches a task answers, stores and journals as recorded, on both engines.

The recording lists, by actor and call, each outcome with the `status/holder` pairs that have it.
To record again after a change on purpose, set RALPHGEN_RECORD=1 and read the diff.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, run_sql
from driving import Driver, connected, query
from engines import ENGINES, VARIABLE
from held_tasks import GONE, held_on
from ledger_rows import FUTURE
from making_sessions import client_of, opened

from ralphgen.board.actions import TaskActions
from ralphgen.board.live import Board
from ralphgen.board.text import Form
from ralphgen.errors import RalphgenError
from ralphgen.ledger.undo import undo_session
from ralphgen.runtime.tasks import STATUSES

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DAY = re.compile(r"\d{4}-\d\d-\d\d")  # a call may write the current date
RECORDING = Path(__file__).with_name("recorded_task_calls.json")
TASK, WAITING = 2, 3
HOLDERS = ("none", "own", "other", "gone")
SOME = ("done", "pending", "skipped")  # set by slow actors
Call = Callable[[], str]
STATE = f"""
SELECT 'task', status, CASE WHEN completed IS NULL THEN '' ELSE 'completed' END, blocked_by
    FROM tasks WHERE id = {TASK}
UNION ALL SELECT 'claim', session, token || ' ' || attempts,
    CASE WHEN began IS NULL THEN '' ELSE 'began' END FROM ralphgen_claims WHERE task_id = {TASK}
UNION ALL SELECT 'comment', author, body, '' FROM task_comments
UNION ALL SELECT 'journal', tool, substr(before, 1, 30), substr(after, 1, 30)
    FROM ralphgen_journal WHERE session <> 'undone' AND table_name = 'tasks'
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_each_call_on_a_task_is_as_recorded(engine: str, tmp_path: Path) -> None:
    with held_on(engine, tmp_path / "p") as root:
        run_sql(root, f"UPDATE tasks SET depends_on = '[{TASK}]' WHERE id = {WAITING}")
        found: dict[str, dict[str, dict[str, list[str]]]] = {}
        for actor in (agent_session, unbound, manual, command_line, board, undo):
            outcomes = found.setdefault(actor.__name__, {})
            with ExitStack() as kept:
                same_server = None
                if actor in (unbound, manual):  # one server for all states: a start takes long
                    same_server = kept.enter_context(actor(root, ""))
                for status, holder in product(STATUSES, HOLDERS):
                    entered = nullcontext(same_server) if same_server else actor(root, status)
                    with entered as (own, calls):
                        for name, call in calls.items() if own or holder != "own" else ():
                            outcome = DAY.sub("DAY", outcome_of(root, status, holder, own, call))
                            same = outcomes.setdefault(name, {}).setdefault(outcome, [])
                            same.append(f"{status}/{holder}")
    shown = {
        actor: {
            call: {one: " ".join(same) for one, same in every.items()}
            for call, every in calls.items()
        }
        for actor, calls in found.items()
    }
    if os.environ.get("RALPHGEN_RECORD") and engine == "sqlite":
        RECORDING.write_text(
            json.dumps(shown, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))

    assert recorded == shown


def outcome_of(root: Path, status: str, holder: str, own: str, call: Call) -> str:
    """Return the answer to a call, its changes, and its entries in the journal."""
    before = reset(root, status, holder, own)
    answer = call()
    moved = [str(row) for row in query(root, STATE) if row not in before]
    outcome = " | ".join([answer, *moved])
    return outcome.replace(own, "own") if own else outcome


def reset(root: Path, status: str, holder: str = "none", own: str = "") -> list[tuple[Any, ...]]:
    """Give the task a status and a holder; its state."""
    session = f"'{own or holder}'" if holder != "none" else "NULL"
    session = f"'{holder}'" if holder in ("other", "gone") else session
    token, pid = 1 if holder in ("own", "none") else 2, GONE if holder == "gone" else "NULL"
    expires = "2020-01-01T00:00:00.000Z" if holder == "gone" else FUTURE
    run_sql(
        root,
        "DELETE FROM task_comments",
        "DELETE FROM ralphgen_claims",
        "DELETE FROM ralphgen_journal WHERE session <> 'undone'",
        f"DELETE FROM tasks WHERE id IN ({TASK}, 4)",
        "INSERT INTO tasks (id, feature, discipline, title, status, depends_on) "
        f"VALUES ({TASK}, 'auth', 'backend', 'It', '{status}', '[]')",
        "INSERT INTO ralphgen_claims (task_id, session, token, expires, pid, began, attempts) "
        f"VALUES ({TASK}, {session}, {token}, '{expires}', {pid}, '{FUTURE}', 1)",
    )
    return query(root, STATE)


def calls_of(server: Driver, *, bound: bool) -> dict[str, Call]:
    """Return each call on the task of a server's client, by name."""
    task = {} if bound else {"id": TASK}
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        f"status {new}": ("set_task_status", {**task, "status": new, **reason_of(new)})
        for new in STATUSES
    }
    calls |= {
        "update": ("update_task", {**task, "hints": "New"}),
        "enrich": ("enrich_task", {**task, "pseudocode": "Do it."}),
        "delete": ("delete_task", task),
        "create": ("create_task", {"feature": "auth", "discipline": "backend", "title": "Else"}),
    }
    if not bound:
        forced = {**task, "status": "pending", "force": True}
        calls["force"] = ("set_task_status", forced)
    names = server.names()
    return {
        name: lambda tool=tool, given=given: server.ask(tool, given)[1]  # type: ignore[misc]
        for name, (tool, given) in calls.items()
        if tool in names
    }


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}


def reason_of(status: str) -> dict[str, str]:
    return {"reason": "No key."} if status == "blocked" else {}


@contextmanager
def agent_session(root: Path, _status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield an agent's session on the task."""
    reset(root, "pending")
    made = opened(root, "task_execution", task=TASK)
    with client_of(made.mcp_config, environment=variables()) as server:
        yield made.session_id, calls_of(server, bound=True)


@contextmanager
def unbound(root: Path, _status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield an agent's session on any task."""
    with connected(root, "opus_review", env=variables()) as server:
        yield "", calls_of(server, bound=False)


@contextmanager
def manual(root: Path, _status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield the user's session."""
    with connected(root, env=variables()) as server:
        yield "", calls_of(server, bound=False)


@contextmanager
def command_line(root: Path, _status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield the commands on tasks."""

    def run(new: str) -> str:
        done = ralphgen("task", "status", str(TASK), new, "--project", root)
        return f"{done.returncode} {done.stdout}{done.stderr}"

    yield "", {f"status {new}": lambda new=new: run(new) for new in SOME}  # type: ignore[misc]


@contextmanager
def board(root: Path, status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield the form of a task's page."""
    actions = TaskActions(Board(root), lambda _: None)

    def post(new: str) -> str:
        form = Form((("status", new), ("was.status", status)))
        try:
            return actions.set_status(TASK, form).message
        except RalphgenError:
            return "the status was not changed"

    yield "", {f"status {new}": lambda new=new: post(new) for new in SOME}  # type: ignore[misc]


@contextmanager
def undo(root: Path, status: str) -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield the undo of a session that changed the task to the status."""

    def back(old: str) -> str:
        run_sql(root, "DELETE FROM ralphgen_journal")
        columns = "time, session, tool, table_name, row_key, before, after"
        sides = [json.dumps({"status": one}) for one in (old, status)]
        sql = f"INSERT INTO ralphgen_journal ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"
        query(root, sql, FUTURE, "undone", "set_task_status", "tasks", str(TASK), *sides)
        return str([(one.done, one.left) for one in undo_session(root, "undone").rows])

    yield "", {f"from {old}": lambda old=old: back(old) for old in STATUSES if old != status}  # type: ignore[misc]
