"""A project with unfinished work, for the task, session and loop pages of the board."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from command_line import initialized
from driving import query
from making_sessions import opened
from proved_projects import git

from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile, launched_in

LIVE = "task_execution-3-20261121T090000Z-c0de"
OVER = "task_execution-2-20261120T100000Z-a1b2"
WORDS = "The rounding of the returns is now that of the invoice; two tests are left to be written."
OUTPUT = "collected 214 items\n" + "tests/returns/test_rounding.py ........F......... [ 42%]\n" * 9
DIFF = "def rounded(amount: Decimal) -> Decimal:\n    return amount.quantize(CENT)\n"
LOOP = {
    "agent": "claude",
    "parallel": 2,
    "max_tasks": 12,
    "max_cost": 20.0,
    "max_time": "8h",
    "review_every": 5,
    "worktrees": True,
}


def project_at_work(folder: Path) -> Path:
    """Create a project with past and current work of agents."""
    root = initialized(folder, "--kit", "dela")
    learnings = json.dumps(
        [{"text": "Prices are in cents.", "source": "agent", "created": "2026-11-20T10:00:00Z"}]
    )
    for number, name in enumerate(("Checkout and returns", "Notifications"), start=1):
        query(
            root,
            "INSERT INTO features (name, display_name, acronym, learnings) VALUES (?, ?, ?, ?)",
            *(f"feature-{number}", name, f"F{number}", learnings),
        )
    statuses = ("pending", "done", "in_progress", "blocked", "draft", "skipped", "pending")
    for number, status in enumerate(statuses * 3, start=1):
        query(
            root,
            "INSERT INTO tasks (id, feature, discipline, title, status, priority, depends_on,"
            " blocked_by, created) VALUES (?, ?, 'implementation', ?, ?, 'critical', ?, ?, ?)",
            *(number, f"feature-{number % 2 + 1}"),
            *("Make authentication independent of the session store", status),
            *(json.dumps([number - 1] if number > 1 else []), None, "2026-11-20"),
        )
        query(
            root,
            "INSERT INTO ralphgen_sessions (id, recipe, discipline, task_id, feature, agent,"
            " model, started, ended, outcome, turns, input_tokens, output_tokens, cost_usd,"
            " worktree) VALUES (?, 'task_execution', 'implementation', ?, 'feature-1', 'claude',"
            " 'claude-sonnet-4-5', '2026-11-20T10:00:00Z', '2026-11-20T10:40:00Z', 'done', 35,"
            " 1234567, 45678, 4.5678, ?)",
            *(f"task_execution-{number}-20261120T100000Z-a1b2", number),
            f"/a/.ralph/worktrees/task-{number}",
        )
    query(
        root,
        "INSERT INTO task_comments (task_id, author, body, created)"
        " VALUES (1, 'Ada', 'Please look at the rounding again.', '2026-11-20T10:00:00Z')",
    )
    servers = [{"name": "docs", "command": "npx", "args": ["-y", "docs"], "env": {"KEY": "x"}}]
    query(
        root,
        "UPDATE disciplines SET mcp_servers = ? WHERE name = 'testing'",
        json.dumps(servers),
    )
    opened(root, "task_execution", task=1)
    opened(root, "opus_review")
    _add_work(root)
    return root


def _add_work(root: Path) -> None:
    """Add messages, work and proof of agents, and a loop that has ended."""
    (root / "returns.py").write_text("def rounded(amount):\n    return amount\n", encoding="utf-8")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    (root / "returns.py").write_text(DIFF, encoding="utf-8")
    (root / "a_new_module_with_a_rather_long_name.py").write_text(DIFF * 20, encoding="utf-8")
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, recipe, discipline, task_id, feature, agent, model,"
        " started) VALUES (?, 'task_execution', 'implementation', 3, 'feature-2', 'claude',"
        " 'claude-sonnet-4-5', '2026-11-21T09:00:00Z')",
        LIVE,
    )
    query(
        root,
        "UPDATE tasks SET description = ?, acceptance_criteria = ?, blocked_by = NULL"
        " WHERE id IN (2, 3, 5)",
        *(f"{WORDS}\n\n{WORDS}", json.dumps([WORDS, "All checks pass."])),
    )
    for session, task in ((LIVE, 3), (OVER, 2)):
        _add_session(root, session, task)
    _add_loop(root, "loop-20261120T100000Z-00aa", ended=True)


def _add_session(root: Path, session: str, task: int) -> None:
    folder = root / SESSIONS / session
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    facts = {"session_id": session, "recipe": "task_execution", "task_id": task}
    (folder / "context.json").write_text(json.dumps(facts), encoding="utf-8")
    texts = [{"type": "text", "text": f"{number}: {WORDS}"} for number in range(30)]
    uses = [{"type": "tool_use", "name": "mcp__ralph__set_task_status", "id": "1", "input": {}}]
    said = [{"type": "assistant", "message": {"content": [one]}} for one in (*texts, *uses)]
    _write_lines(folder / "transcript.jsonl", said)
    call = {"time": "2026-11-20T10:01:02Z", "kit": "ralph", "tool": "add_task_comment", "ms": 12.3}
    refused = {**call, "ok": False, "refusal": 'the argument "body" is 7, and must be a text'}
    _write_lines(folder / "calls.jsonl", [{**call, "ok": True}] * 20 + [refused])
    for number in range(5):
        query(
            root,
            "INSERT INTO ralphgen_journal (time, session, tool, table_name, row_key, before, after)"
            " VALUES ('2026-11-20T10:01:02Z', ?, 'update_task', 'tasks', ?, ?, ?)",
            *(session, task, json.dumps({"title": "Returns"}), json.dumps({"title": WORDS})),
        )
        query(
            root,
            "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, exit_code,"
            " started, seconds, tree, tail) VALUES (?, ?, 'test', 'd', ?, '2026-11-20T10:01:02Z',"
            " 12.5, 't', ?)",
            *(task, session, number % 2, OUTPUT),
        )


def _add_loop(root: Path, name: str, *, ended: bool) -> None:
    _write_lines(root / SESSIONS / f"{name}.jsonl", [_start(), *_events(ended=ended)])


def _start() -> dict[str, object]:
    return {
        "event": "start",
        "time": "2026-11-20T10:00:00Z",
        "pid": os.getpid(),
        "options": LOOP,
    }


def _events(*, ended: bool) -> Iterator[dict[str, object]]:
    at = {"time": "2026-11-20T10:00:01Z"}
    yield {"event": "begin", **at, "agent": "claude", "workers": 2, "ready": 9}
    for task in range(1, 10):
        session = f"task_execution-{task}-20261120T100000Z-a1b2"
        title = "Make authentication independent of the session store"
        yield {
            **at,
            "event": "session",
            "worker": 1,
            "session": session,
            "task": task,
            "title": title,
        }
        facts = {"worker": 1, "task": task, "outcome": "done", "cost_usd": 0.5, "seconds": 312.5}
        yield {"event": "end", **at, **facts, "turns": 35}
    if ended:
        totals = {"outcomes": {"done": 9}, "cost_usd": 4.5, "seconds": 4_000.0}
        yield {"event": "stop", **at, "reason": "no task is ready", "exit_code": 0, **totals}
    else:
        yield {**at, "event": "session", "worker": 2, "session": LIVE, "task": 3, "title": WORDS}


@contextmanager
def at_work(root: Path) -> Iterator[None]:
    """Mark a loop and the agent of a session as running."""
    begin = f"{json.dumps(_start())}\n".encode()
    path = root / SESSIONS / "loop-20261121T090000Z-00bb.jsonl"
    with launched_in(root / SESSIONS / LIVE), closing(HeldFile(path, begin)) as loop:
        for told in _events(ended=False):
            loop.write(f"{json.dumps(told)}\n".encode())
        yield
    path.unlink()


def _write_lines(path: Path, values: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
