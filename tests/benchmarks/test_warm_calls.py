"""Warm calls over stdio, compared with other servers, and on more and more rows."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from figures import topic
from installed import SAME_TOOLS, there
from processes import Conversation, Server, conversation, memory
from projects import ours, plain_sdk, project

pytestmark = pytest.mark.benchmark

WARM_UP = 10
ROUNDS = 200
NEW = {"feature": "f1", "discipline": "d1"}


def timed(talk: Conversation, tool: str, arguments: Mapping[str, Any]) -> float:
    """Milliseconds of a call there and back."""
    begun = time.perf_counter()
    talk.call(tool, arguments)
    return (time.perf_counter() - begun) * 1000


def call_milliseconds(
    talk: Conversation, tool: str, arguments: Mapping[str, Any], number: Iterator[int]
) -> float:
    """Return the milliseconds of a call; no two calls write the same value."""
    unlike = {"create_task": "title", "update_task": "description"}
    more = {unlike[tool]: f"Number {next(number)}"} if tool in unlike else {}
    return timed(talk, tool, {**arguments, **more})


def pinged(talk: Conversation) -> float:
    """Milliseconds of there and back without any work."""
    begun = time.perf_counter()
    talk.ask("ping")
    return (time.perf_counter() - begun) * 1000


def all_on(stack: ExitStack, servers: list[Server]) -> list[Conversation]:
    """Conversations that are open at the same time."""
    talks = [stack.enter_context(conversation(server)) for server in servers]
    for talk in talks:
        talk.shake_hands()
    return talks


@pytest.mark.parametrize("wal", [True, False], ids=["WAL", "rollback journal"])
def test_warm_calls_compared_with_peers(tmp_path: Path, wal: bool) -> None:
    root = project(tmp_path, wal=wal)
    journal = "WAL" if wal else "rollback journal"
    with topic(f"Warm calls over stdio, 200 tasks, {journal}") as table, ExitStack() as stack:
        talks = all_on(stack, [ours(root), plain_sdk(root), *there(SAME_TOOLS, root, table.note)])
        for tool, given in (
            ("ping", None),
            ("get_task", {"id": 100}),
            ("list_tasks", {"limit": 50}),
            ("create_task", NEW),
            ("update_task", {"id": 100}),
        ):
            number = count()
            for turn in range(WARM_UP + ROUNDS):
                for talk in talks:
                    taken = (
                        pinged(talk)
                        if given is None
                        else call_milliseconds(talk, tool, given, number)
                    )
                    if turn >= WARM_UP:
                        table.add(talk.server.name, f"{tool} ms", taken)
        for talk in talks:
            resident, proportional = memory(talk.process.pid)
            table.add(talk.server.name, "RSS MB", resident)
            table.add(talk.server.name, "PSS MB", proportional)


def calls_on(tasks: int) -> list[tuple[str, str, dict[str, Any]]]:
    """The calls that are made on a project of so many tasks: how they are shown, and themselves."""
    half = str(tasks // 2)
    return [
        ("get_task", "get_task", {"id": tasks // 2}),
        ("list_tasks", "list_tasks", {"limit": 50}),
        ("list_tasks, one filter", "list_tasks", {"filter_status": "done"}),
        ("list_tasks, a cursor", "list_tasks", {"filter_status": "done", "cursor": half}),
        (
            "list_tasks, two filters",
            "list_tasks",
            {"filter_status": "done", "filter_feature": "f7"},
        ),
        ("get_project_progress", "get_project_progress", {}),
        ("update_task", "update_task", {"id": tasks // 2}),
        ("update_task, depends_on", "update_task", {"id": tasks // 2, "depends_on": [1, 2]}),
        ("create_task", "create_task", NEW),
        ("list_features", "list_features", {}),
        ("get_feature", "get_feature", {"name": "f7"}),
    ]


@pytest.mark.parametrize(("tasks", "rounds"), [(100, 60), (1_000, 60), (10_000, 30), (200_000, 15)])
def test_calls_on_ever_more_rows(tmp_path: Path, tasks: int, rounds: int) -> None:
    root = project(tmp_path, tasks=tasks, features=min(200, tasks // 10))
    with topic(f"Calls over stdio, {tasks:,} tasks (ms)") as table, ExitStack() as stack:
        talks = all_on(stack, [ours(root), plain_sdk(root)])
        for shown, tool, arguments in calls_on(tasks):
            number = count()
            for turn in range(rounds + 1):
                for talk in talks:
                    taken = call_milliseconds(talk, tool, arguments, number)
                    if turn:
                        table.add(talk.server.name, shown, taken)
        for talk in talks:
            table.add(talk.server.name, "RSS MB", memory(talk.process.pid)[0])
