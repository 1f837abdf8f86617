"""One project on both engines: the start, and calls at 200 and at 200,000 tasks."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import psycopg
import pytest
from driving import made_here, quiet
from engines import CONFIG, VARIABLE
from figures import Topic, topic
from postgresql import database, needs_postgresql
from processes import Conversation, conversation, memory
from projects import database as file_of
from projects import ours, project
from test_warm_calls import call_milliseconds

from ralphgen.emit.workflows import regenerate
from ralphgen.exchange.transfer import move_project
from ralphgen.kits.project import Project
from ralphgen.planning.access import absent_indexes
from ralphgen.project.schema import open_rows

pytestmark = [pytest.mark.benchmark, needs_postgresql]

STARTS = 25
NEW = {"feature": "f1", "discipline": "d1"}


@contextmanager
def on_both(folder: Path, tasks: int) -> Iterator[tuple[Path, Path, str]]:
    """A project in a file, the same in PostgreSQL, and the DSN of that."""
    features = max(10, min(200, tasks // 10))
    one = project(folder / "sqlite", tasks=tasks, features=features)
    other = folder / "postgresql"
    shutil.copytree(one, other)  # with the file: contexts are made from it
    (other / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        move_project(other, file_of(one), dry_run=False, say=quiet)
        regenerate(other, force=False, say=quiet)
        made_here(other)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        yield one, other, dsn


def make_indexes(root: Path, dsn: str) -> None:
    """Run what `ralphgen db indexes` prints."""
    with open_rows(root) as rows:
        found = rows.indexes()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for index in absent_indexes(Project(root).facts, found):
            connection.execute(index.statement("public").encode())
        connection.execute("VACUUM ANALYZE")


def test_the_start_compared_with_a_file(tmp_path: Path) -> None:
    with on_both(tmp_path, 200) as (one, other, _), topic("Start-up on both engines") as table:
        servers = [replace(ours(one), name="SQLite"), replace(ours(other), name="PostgreSQL")]
        for turn in range(STARTS + 3):
            for server in servers:
                with conversation(server) as talk:
                    talk.shake_hands()
                    talk.ask("tools/list")
                    listed, resident = talk.since(), memory(talk.process.pid)[0]
                    talk.call("get_task", {"id": 100})
                    called = talk.since()
                    _, processor = talk.end()
                if turn >= 3:
                    table.add(server.name, "tools/list ms", listed)
                    table.add(server.name, "RSS MB", resident)
                    table.add(server.name, "first call answered ms", called)
                    table.add(server.name, "CPU ms", processor)
        ratios = (table.rows[name]["tools/list ms"] for name in ("SQLite", "PostgreSQL"))
        on_file, on_server = map(min, ratios)
        table.note(f"ratio of the minima of tools/list: {on_server / on_file:.2f} (goal: 1.05)")


def measure(talk: Conversation, name: str, tasks: int, rounds: int, table: Topic) -> None:
    """Add the milliseconds of calls, warm."""
    statuses = ("in_progress", "pending")
    listed = {"filter_status": "done", "filter_feature": "f7", "limit": 50}
    for turn in range(rounds + 3):
        for shown, tool, arguments in (
            ("get_task", "get_task", {"id": tasks // 2 + turn}),
            ("set_task_status", "set_task_status",
             {"id": tasks // 2 + 1, "status": statuses[turn % 2]}),
            ("create_task", "create_task", NEW),
            ("list_tasks, two filters", "list_tasks", listed),
            ("get_project_progress", "get_project_progress", {}),
        ):  # fmt: skip
            taken = call_milliseconds(talk, tool, arguments, NUMBERS)
            if turn >= 3:
                table.add(name, f"{shown} ms", taken)


NUMBERS = count()  # of new tasks: no two have one title


@pytest.mark.parametrize(("tasks", "rounds"), [(200, 40), (200_000, 20)])
def test_calls_with_and_without_the_indexes(tmp_path: Path, tasks: int, rounds: int) -> None:
    with (
        on_both(tmp_path, tasks) as (one, other, dsn),
        topic(f"Calls on both engines, {tasks:,} tasks (ms)") as table,
    ):
        for name, root in (("PostgreSQL, its own indexes", other), ("SQLite", one)):
            with conversation(ours(root)) as talk:
                talk.shake_hands()
                measure(talk, name, tasks, rounds, table)
        make_indexes(other, dsn)
        with conversation(ours(other)) as talk:
            talk.shake_hands()
            measure(talk, "PostgreSQL, those of `ralphgen db indexes`", tasks, rounds, table)
