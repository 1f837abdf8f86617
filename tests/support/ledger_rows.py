"""Entries of sessions in a ledger."""

import json
import sqlite3

from board_rows import add_row

FUTURE = "2999-01-01T00:00:00.000Z"
PAST = "2026-02-10T18:11:00.000Z"
BEGAN = "2026-02-10T17:56:00.000Z"


def add_session(connection: sqlite3.Connection, name: str, **row: object) -> None:
    usual = {"recipe": "task_execution", "started": "2026-02-10T17:56:00Z"}
    add_row(connection, "sessions", id=name, **{**usual, **row})


def add_change(connection: sqlite3.Connection, key: object, before: object, after: object) -> None:
    sides = [None if one is None else json.dumps(one) for one in (before, after)]
    add_row(
        connection,
        "journal",
        time="2026-02-10T17:56:00Z",
        session="s-1",
        tool="set_task_status",
        table_name="tasks",
        row_key=str(key),
        before=sides[0],
        after=sides[1],
    )


def add_run(connection: sqlite3.Connection, **row: object) -> None:
    usual = {"task_id": 1, "session": "s-1", "check_name": "tests", "definition": "d"}
    more = {"exit_code": 0, "started": "2026-02-10T17:56:00Z", "seconds": 1.5, "tree": "t"}
    add_row(connection, "evidence", **{**usual, **more, **row})
