"""Several servers, foreign writers and migrations on one database."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, connected, create_project, query

PROCESSES = 8
BASE = {"feature": "auth", "discipline": "backend"}
WORDS = ("jitter", "socket", "cookie", "cursor", "schema", "vector", "thread", "kernel")
COUNTED = """
import json, sys
folder, limit = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, folder)
from policy import POLICY
from ralph.tables import TABLES
from runtime.engine.sqlite.database import Database
from runtime.session import read_session
from runtime.ralph.tasks import get_task, list_tasks
from runtime.ralph.workspace import Workspace

session = read_session("ralph", folder, None, None, POLICY)
workspace = Workspace(folder, session, Database, TABLES)
connection = workspace.database.connection
answers = []
for tool, arguments in (
    (list_tasks, {"limit": limit}),
    (list_tasks, {"limit": limit, "filter_status": "pending", "cursor": "3000"}),
    (list_tasks, {"limit": limit, "filter_feature": "auth", "filter_discipline": "backend"}),
    (get_task, {"id": 20000}),
):
    statements = []
    connection.set_trace_callback(statements.append)
    tool(workspace, arguments)
    connection.set_trace_callback(None)
    plans = [
        row[3]
        for statement in statements
        if statement.startswith("SELECT") and "COUNT" not in statement and "GLOB" not in statement
        for row in connection.execute("EXPLAIN QUERY PLAN " + statement)
    ]
    answers.append([len(statements), plans])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("shared"), "PRAGMA user_version = 7")


@pytest.fixture(scope="module")
def servers(project: Path) -> Iterator[list[Driver]]:
    """Eight servers on one database, each a separate process."""
    with ExitStack() as stack, ThreadPoolExecutor(PROCESSES) as threads:
        opened = [connected(project) for _ in range(PROCESSES)]
        yield list(threads.map(stack.enter_context, opened))


def at_once(servers: list[Driver], work: Callable[[int, Driver], list[Any]]) -> list[Any]:
    """Return the answers of all servers when they work at the same time."""
    with ThreadPoolExecutor(PROCESSES) as threads:
        answers = list(threads.map(work, range(len(servers)), servers))
    return [answer for several in answers for answer in several]


def test_the_work_of_eight_processes_is_all_kept(project: Path, servers: list[Driver]) -> None:
    """First with a rollback journal, then in WAL."""
    for mode in ("delete", "wal"):
        assert [(mode,)] == query(project, f"PRAGMA journal_mode = {mode}")
        before = query(project, "SELECT COUNT(*) FROM tasks")[0][0]
        ids = at_once(servers, partial(tasks, mode))
        kept = query(project, "SELECT id FROM tasks WHERE title = ? ORDER BY id", mode)

        assert list(range(before + 1, before + 81)) == sorted(ids)
        assert [(task,) for task in sorted(ids)] == kept

        servers[0].call("create_feature", name=mode, display_name="Shared")
        at_once(servers, partial(knowledge, mode, ids[0]))
        shown = servers[0].call("get_feature", name=mode)
        progress = (project / ".ralph" / "progress.txt").read_text(encoding="utf-8")

        assert 24 == shown["learnings_total"] == len(set(shown["context_files"]))
        assert 24 == servers[0].call("get_task", id=ids[0])["comments_total"]
        assert 24 == sum(
            line.endswith(mode) and "[manual]" in line for line in progress.split("\n")
        )
        assert [("ok",)] == query(project, "PRAGMA integrity_check")
        assert [(7,)] == query(project, "PRAGMA user_version")
        assert [(mode,)] == query(project, "PRAGMA journal_mode")


def tasks(mode: str, _: int, server: Driver) -> list[int]:
    return [server.call("create_task", **BASE, title=mode)["id"] for _ in range(10)]


def knowledge(mode: str, task: int, number: int, server: Driver) -> list[str]:
    for turn in range(3):
        text = f"{WORDS[number]}{turn} {WORDS[-number]}-{number}-{turn} {mode}"
        path = f"src/{number}-{turn}.ts"
        server.call("append_feature_learning", feature_name=mode, text=text)
        server.call("add_feature_context_file", feature_name=mode, file_path=path)
        server.call("add_task_comment", task_id=task, author="human", body=text)
        server.call("append_progress", text=text)
    return []


def test_one_of_eight_gets_a_name_and_the_others_a_refusal(
    project: Path, servers: list[Driver]
) -> None:
    def create(_: int, server: Driver) -> list[bool]:
        return [server.ask("create_feature", {"name": "only", "display_name": "Only"})[0]]

    failed = at_once(servers, create)

    assert [False] + [True] * (PROCESSES - 1) == sorted(failed)
    assert [("only",)] == query(project, "SELECT name FROM features WHERE name = 'only'")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_call_waits_for_a_foreign_writer_and_a_clean_end_leaves_one_file(
    tmp_path: Path, mode: str
) -> None:
    create_project(tmp_path, f"PRAGMA journal_mode = {mode}", "PRAGMA user_version = 3")
    folder = tmp_path / ".ralph" / "db"
    foreign = sqlite3.connect(folder / "ralph.db", isolation_level=None)
    with connected(tmp_path) as server, ThreadPoolExecutor(1) as thread:
        foreign.execute("BEGIN EXCLUSIVE")
        foreign.execute("UPDATE features SET description = 'foreign' WHERE name = 'auth'")
        waiting = thread.submit(server.call, "update_feature", name="auth", boundaries=mode)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=1)
        foreign.execute("COMMIT")
        answer = waiting.result(timeout=60)
        foreign.close()

    assert ["boundaries"] == answer["changed"]
    assert ["ralph.db"] == sorted(path.name for path in folder.iterdir())
    assert ([(mode,)], [(3,)], [("foreign", mode)]) == (
        query(tmp_path, "PRAGMA journal_mode"),
        query(tmp_path, "PRAGMA user_version"),
        query(tmp_path, "SELECT description, boundaries FROM features WHERE name = 'auth'"),
    )


def test_a_migration_under_a_running_server_is_named(tmp_path: Path) -> None:
    """Added columns wait for the next start; removed ones must not be ignored in writes."""
    create_project(tmp_path)
    with connected(tmp_path) as server:
        query(tmp_path, 'ALTER TABLE tasks ADD COLUMN "brand new" TEXT')
        query(tmp_path, "ALTER TABLE features ADD COLUMN risk TEXT DEFAULT 'low'")
        query(tmp_path, "CREATE TABLE notes (id INTEGER PRIMARY KEY)")
        query(tmp_path, "CREATE INDEX by_title ON tasks (title)")
        added = server.call("create_task", **BASE, title="t")
        query(tmp_path, "ALTER TABLE tasks DROP COLUMN hints")
        refusals = [
            server.refusal("get_task", id=1),
            server.refusal("create_task", **BASE, title="u"),
            server.refusal("list_features"),
        ]
        query(tmp_path, "ALTER TABLE tasks ADD COLUMN hints TEXT")
        again = server.call("get_task", id=added["id"])

    assert ["t", "draft"] == [again["title"], again["status"]]
    gone = (
        'the database\'s schema changed during this session (column "tasks.hints" is gone): '
        'run "ralphgen regen" and start a new session'
    )
    assert [gone] * 3 == refusals
    assert [(3,)] == query(tmp_path, "SELECT COUNT(*) FROM tasks")


def test_a_page_of_twenty_thousand_takes_indexes_and_no_query_for_each_row(tmp_path: Path) -> None:
    create_project(
        tmp_path,
        "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        "INSERT INTO tasks (id, feature, discipline, title, depends_on) "
        "SELECT i, 'auth', 'backend', 't', json_array(i - 1, i - 2) FROM n",
    )
    command = [sys.executable, "-I", "-c", COUNTED, str(tmp_path / ".ralph" / "mcp")]
    few, many = (
        json.loads(subprocess.run([*command, limit], check=True, capture_output=True).stdout)
        for limit in ("2", "200")
    )

    assert [count for count, _ in few] == [count for count, _ in many]
    assert [] == [count for count, _ in many if count > 12]
    plans = [step for _, steps in many for step in steps]
    assert [] == [step for step in plans if "TEMP B-TREE" in step and "GROUP" not in step]
    assert [] == [step for step in plans[1:] if step.startswith("SCAN") and "USING" not in step][1:]
