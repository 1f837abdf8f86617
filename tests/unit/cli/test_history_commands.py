"""`ralphgen log` and `undo`, on what people, tools, servers and the board have written."""

import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, ran, refused, run_sql
from driving import connected, create_project, made_here, query, server_command
from making_sessions import client_of, opened

from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.live import Board
from ralphgen.board.project import save
from ralphgen.board.text import Form
from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.engine.sqlite.journal import Journal
from ralphgen.sessions.store import prune_sessions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("history") / "p")
    ran("db", "ledger", "on", "--yes", "--quiet", cwd=root)
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(model, tmp_path / "p"))


def journal(root: Path) -> list[tuple[Any, ...]]:
    """Session, tool, table and key of each entry."""
    sql = "SELECT session, tool, table_name, row_key FROM ralphgen_journal ORDER BY number"
    return query(root, sql)


def log(root: Path, *options: str) -> list[dict[str, Any]]:
    """Return the output of `ralphgen log --json`."""
    done = ralphgen("log", *options, "--json", "--project", root)
    assert 0 == done.returncode, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_each_command_is_a_separate_session(root: Path) -> None:
    for status in ("in_progress", "pending"):
        ran("task", "status", "1", status, "--project", root)
    sessions = [session for session, *_ in journal(root)]

    assert [("set_task_status", "tasks", "1")] * 2 == [entry[1:] for entry in journal(root)]
    assert 2 == len({*sessions})
    ended = "SELECT id, recipe, outcome FROM ralphgen_sessions WHERE ended IS NOT NULL"
    assert {(one, "manual", "ended") for one in sessions} == {*query(root, ended)}


def test_a_session_writes_under_its_id_and_keeps_a_line_on_each_call(root: Path) -> None:
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as client:
        client.call("get_task", id=1)
        client.call("append_progress", text="half of it")
        client.refusal("set_task_status", status="blocked")
        client.protocol_error("delete_task", id=1)
    told = (session.folder / "calls.jsonl").read_text(encoding="utf-8")
    calls = [json.loads(line) for line in told.splitlines()]
    mode = stat.S_IMODE((session.folder / "calls.jsonl").stat().st_mode)

    assert [(session.session_id, "append_progress", "progress.txt", "")] == journal(root)
    assert [("ralph", "get_task", True), ("ralph", "append_progress", True)] == [
        (call["kit"], call["tool"], call["ok"]) for call in calls[:2]
    ]
    assert [("set_task_status", False), ("delete_task", False)] == [
        (call["tool"], call["ok"]) for call in calls[2:]
    ]
    assert "reason" in calls[2]["refusal"]
    assert all(call["ms"] >= 0 for call in calls)
    assert all(call["bytes"] > 0 for call in calls[:3])
    assert 0o600 == mode


def test_an_entry_that_cannot_be_put_on_record_leaves_the_file_as_it_was(root: Path) -> None:
    """The agent learns that nothing was changed, and tries again."""
    path = root / ".ralph" / "progress.txt"
    path.write_text("by hand", encoding="utf-8")
    run_sql(
        root,
        "ALTER TABLE ralphgen_journal ADD COLUMN room TEXT CHECK (row_key <> '')",
    )
    with connected(root) as server:
        assert "breaks a rule" in server.refusal("append_progress", text="one")
        assert "by hand" == path.read_text(encoding="utf-8")
        run_sql(root, "ALTER TABLE ralphgen_journal DROP COLUMN room")
        server.call("append_progress", text="one")

    assert 2 == len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_a_log_that_cannot_be_written_holds_no_call_up(root: Path, make: str) -> None:
    if not hasattr(os, make):
        pytest.skip("no pipes")
    session = opened(root, "manual")
    getattr(os, make)(session.folder / "calls.jsonl")
    with client_of(session.mcp_config) as client:
        assert 1 == client.call("get_task", id=1)["id"]


def test_a_folder_with_calls_is_kept_longer_than_a_day(root: Path) -> None:
    one, other = opened(root, "manual"), opened(root, "manual")
    with client_of(one.mcp_config) as client:
        client.call("get_task", id=1)
    old = time.time() - 3 * 24 * 3600
    for session in (one, other):
        os.utime(session.folder / "lock", (old, old))
    pruned = prune_sessions(root, 30)

    assert [other.session_id] == pruned
    assert [one.session_id] == prune_sessions(root, 2)


def test_a_server_without_a_session_is_one(root: Path) -> None:
    with connected(root) as client:
        client.call("create_task", title="x", feature="auth", discipline="backend")
    (context,) = root.glob("context-*.json")
    shutil.copy(context, root / ".ralph/mcp/context.json")
    facts = json.loads((root / ".ralph/mcp/context.json").read_text(encoding="utf-8"))
    del facts["project"], facts["user"]
    (root / ".ralph/mcp/context.json").write_text(json.dumps(facts), encoding="utf-8")
    spoken = {"protocolVersion": "2025-11-25", "capabilities": {}}
    arguments = {"title": "y", "feature": "auth", "discipline": "backend"}
    called = {"name": "create_task", "arguments": arguments}
    told: tuple[dict[str, Any], ...] = (
        {
            "id": 1,
            "method": "initialize",
            "params": {**spoken, "clientInfo": {"name": "n", "version": "1"}},
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": called},
    )
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in told)
    for _ in range(2):
        command = server_command(root, "ralph")
        subprocess.run(command, input=lines, text=True, check=True, capture_output=True)
    first, second = (entry[0] for entry in journal(root)[1:])

    assert first != second
    assert re.fullmatch(r"manual-\d{8}T\d{6}Z-[0-9a-f]{8}", first)


def test_the_board_writes_as_a_session(root: Path) -> None:
    board = Board(root)
    found = read_disciplines(root).by_name("backend")
    assert found is not None
    fields = (
        ("discipline", "backend"),
        ("fingerprint", found.fingerprint),
        ("edits", "servers"),
        ("servers.0.name", "docs"),
        ("servers.0.command", "docs-server"),
        ("servers.0.args", ""),
        ("servers.0.env.0.name", "TOKEN"),
        ("servers.0.env.0.value", "s3cr3t-value"),
    )
    saved = save(board, Form(fields))
    (entry,) = [one for one in log(root) if one["table"] == "disciplines"]

    assert saved.ok, saved
    assert entry["session"].startswith("board-")
    assert "board" == entry["tool"]
    assert {"mcp_servers": "(hidden)"} == entry["after"]


def test_hidden_columns_of_custom_tables_are_not_revealed(root: Path) -> None:
    query(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT, internal TEXT)")
    settings = '[tables.Risks]\nnoun = "risk"\nhide = ["INTERNAL"]\n'
    (root / ".ralph/ralphgen.toml").write_text(settings, encoding="utf-8")
    with closing(Database(str(root / DATABASE))) as database:
        journal = Journal(database, "s", {"recipe": "manual"}, lambda: "tool")
        database.before_writes.append(journal.begin)
        row = "INSERT INTO risks VALUES (1, 'fire', 's3cret')"
        database.writing(lambda: database.change(row))
    query(root, "UPDATE risks SET title = 'x', internal = 'another s3cret'")
    for told in (
        log(root),
        ralphgen("log", cwd=root),
        ralphgen("undo", "s", "--dry-run", cwd=root),
    ):
        assert "s3cret" not in str(told)
        assert "fire" in str(told)


def test_the_log_fits_eighty_columns_and_takes_filters(root: Path) -> None:
    for words in (("status", "1", "in_progress"), ("comment", "1", "x " * 200)):
        assert 0 == ralphgen("task", *words, "--project", root).returncode
    ralphgen("task", "status", "2", "pending", "--project", root)
    shown = ralphgen("log", "--project", root, more={"COLUMNS": "80"})
    first = log(root)[0]

    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert 'tasks 1: status "pending" → "in_progress"' in shown.stdout
    assert {"tasks", "task_comments"} == {one["table"] for one in log(root, "--task", "1")}
    assert [first] == log(root, "--session", first["session"])
    assert [] == log(root, "--since", "2999-01-01")
    assert log(root) == log(root, "--since", "1h")
    assert 'invalid time "then"' in refused("log", "--since", "then", "--project", root, code=2)


def test_undo_shows_asks_and_makes_a_backup(root: Path) -> None:
    ralphgen("task", "status", "1", "in_progress", "--project", root)
    ((session, *_),) = journal(root)
    dry = ralphgen("undo", session, "--dry-run", "--project", root)
    unasked = ralphgen("undo", session, "--project", root)
    backups = [*(root / ".ralph").glob("backups/*.db")]
    done = ralphgen("undo", session, "--yes", "--project", root)

    assert (0, 2, 0) == (dry.returncode, unasked.returncode, done.returncode)
    assert "would restore task 1: status" in dry.stdout
    assert "would restore task 1: status" in unasked.stdout
    assert "restored task 1: status" in done.stdout
    assert [] == backups
    assert 1 == len([*(root / ".ralph").glob("backups/*.db")])
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert "nothing to undo" in ralphgen("undo", session, "--yes", "--project", root).stderr


def test_undo_without_a_session_lists_the_newest(root: Path) -> None:
    none = ralphgen("undo", "--project", root)
    ran("task", "status", "2", "pending", "--project", root)
    ((own, *_),) = journal(root)
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as client:
        client.call("set_task_status", status="in_progress")
    done = ralphgen("undo", "--project", root)

    assert (0, "nothing to undo: no session changed a row\n") == (none.returncode, none.stderr)
    assert (0, "hint: ralphgen undo SESSION\n") == (done.returncode, done.stderr)
    agents, users = done.stdout.splitlines()
    assert agents.startswith(f"{session.session_id}  task 1  ")
    assert agents.endswith("  running")
    assert users.startswith(f"{own}  set_task_status  ")
    assert users.endswith("  ended")


def test_undo_ends_with_1_if_a_row_is_left(root: Path) -> None:
    for status in ("in_progress", "done"):
        ralphgen("task", "status", "1", status, "--project", root)
    session = journal(root)[0][0]
    done = ralphgen("undo", session, "--yes", "--project", root)

    assert 1 == done.returncode
    assert 'the session: status "in_progress"' in done.stdout
    assert 'now: status "done"' in done.stdout


@pytest.mark.parametrize("words", [("log",), ("undo",), ("undo", "any", "--yes")])
def test_without_the_tables_both_name_the_command_that_adds_them(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    root = create_project(tmp_path / "p")

    assert "ralphgen db ledger on" in refused(*words, "--project", root)


def test_a_servers_first_write_finishes_an_undo(root: Path) -> None:
    line = "- 2026-11-20T10:00:00Z [manual] first"
    (root / ".ralph/progress.txt").write_text(f"{line}\n", encoding="utf-8")
    (root / ".ralph/backups").mkdir(exist_ok=True)
    (root / ".ralph/backups/undo-progress.txt").touch()
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection, connection:
        connection.execute(
            "INSERT INTO ralphgen_journal (number, time, table_name, row_key, before) "
            "VALUES (7, 't', 'progress.txt', '', ?)",
            (json.dumps({"line": line}),),
        )
        connection.execute("INSERT INTO ralphgen_unfinished VALUES (7, 'undo-progress.txt')")
    ralphgen("task", "status", "1", "in_progress", "--project", root)

    assert "" == (root / ".ralph/progress.txt").read_text(encoding="utf-8")
    assert [] == query(root, "SELECT * FROM ralphgen_unfinished")


def test_undo_without_a_ledger_is_refused(root: Path) -> None:
    ralphgen("db", "ledger", "off", "--yes", "--project", root)

    done = ralphgen("undo", "--project", root)

    assert 1 == done.returncode
    assert 'the database has no ledger\nhint: add it with "ralphgen db ledger on"' in done.stderr
