"""Progress and learnings on the project's page, in any number and with any content."""

import json
import sqlite3
from datetime import UTC, date
from typing import Any

import pytest
from board_rows import add_row, add_task, lax_database, recorded_database, rows_of
from ledger_rows import add_session

from ralphgen.board.project import (
    MOST_CHARACTERS,
    NEWEST,
    read_days,
    read_learnings,
    read_pictures,
    read_progress,
)
from ralphgen.board.text import LONG_TEXT

FEATURE = "INSERT INTO features (name, display_name) VALUES (?, ?)"
LEARNED = "INSERT INTO features (name, learnings) VALUES (?, ?)"


def learning(text: str, created: object, **more: object) -> dict[str, Any]:
    return {"text": text, "source": "agent", "created": created, **more}


def test_a_feature_counts_its_tasks_by_status_and_drafts_are_no_work() -> None:
    connection = lax_database()
    connection.execute(FEATURE, ("a", "Import"))
    connection.execute(FEATURE, ("b", ""))
    for number, status in enumerate(["done", "done", "pending", "draft", "skipped", "blocked"]):
        add_task(connection, number, status, feature="a")
    add_task(connection, 99, "done", feature="gone")
    found = read_progress(rows_of(connection))
    overall, first, second, third = found

    assert [("b", True, {}), ("gone", False, {"done": 1})] == [
        (one["title"], one["is_known"], one["counts"]) for one in (first, second)
    ]
    assert ("Import", True) == (third["title"], third["is_known"])
    assert {"done": 2, "blocked": 1, "pending": 1, "draft": 1, "skipped": 1} == third["counts"]
    assert ["done", "blocked", "pending", "draft", "skipped"] == [*third["counts"]]
    assert (4, 2) == (third["actionable"], third["done"])
    assert (3, 7) == (overall["done"], sum(overall["counts"].values()))


@pytest.mark.parametrize("value", [None, 7, b"\xff", "\ud800", "a\x1b[31m\n", "x" * 1_000])
def test_names_of_any_kind_are_shown_on_one_line(value: object) -> None:
    connection = lax_database()
    try:
        add_task(connection, 1, value, feature=value)
    except UnicodeEncodeError:
        return  # no database holds it
    overall, feature = read_progress(rows_of(connection))
    (status,) = overall["counts"]

    assert 1 == overall["counts"][status]
    assert status.isprintable()
    assert feature["title"].isprintable()


def test_the_newest_learnings_of_all_features_come_first() -> None:
    connection = lax_database()
    lists = {
        "a": [learning("old", "2026-02-01T10:00:00+00:00"), learning("no date", "")],
        "b": [
            "bare",
            learning("new", "2026-02-03T10:00:00+02:00", reason="so"),
            learning("newest", "2026-02-03T09:00:00Z", source="?"),
        ],
        "c": [learning("day", "2026-02-02"), learning("far", 7)],
    }
    for name, values in lists.items():
        connection.execute(LEARNED, (name, json.dumps(values)))
    connection.execute("INSERT INTO features (name, learnings) VALUES ('d', '[{]'), ('e', '[]')")
    found = read_learnings(rows_of(connection))

    newest = found["newest"]

    assert (7, ["d"], 0) == (found["total"], found["unreadable"], found["not_looked_at"])
    assert ["newest", "new", "day", "old"] == [one["text"] for one in newest][:4]
    assert {"no date", "bare", "far"} == {one["text"] for one in newest[4:]}
    assert [("auto", ""), ("agent", "so")] == [(one["source"], one["reason"]) for one in newest[:2]]


def test_learnings_are_bounded_in_number_and_in_what_is_read_for_them() -> None:
    connection = lax_database()
    many = [learning(f"l{at} \ud800", f"2026-02-03T10:{at % 60:02}:00Z") for at in range(300)]
    for name in ("a", "b"):
        connection.execute(LEARNED, (name, json.dumps(many)))
    connection.execute(LEARNED, ("c", json.dumps([learning("x" * MOST_CHARACTERS, "")])))
    found = read_learnings(rows_of(connection))

    newest = found["newest"]

    assert (600, NEWEST, 1) == (found["total"], len(newest), found["not_looked_at"])
    assert {59} == {int(one["created"][14:16]) for one in newest[:10]}


def test_a_long_learning_is_cut() -> None:
    connection = lax_database()
    connection.execute(LEARNED, ("a", json.dumps([learning("x" * 1_000, "")])))
    (found,) = read_learnings(rows_of(connection))["newest"]

    assert f"{'x' * LONG_TEXT}…" == found["text"]


def test_without_the_column_it_is_told_why_there_are_none() -> None:
    connection = lax_database()
    connection.execute("ALTER TABLE features DROP COLUMN learnings")

    assert 'has no column "learnings"' in read_learnings(rows_of(connection))["lacks"]


def changed(
    connection: sqlite3.Connection, day: str, before: object, after: object, table: str = "tasks"
) -> None:
    sides = [None if one is None else json.dumps(one) for one in (before, after)]
    facts = {"table_name": table, "row_key": "1", "before": sides[0], "after": sides[1]}
    add_row(connection, "journal", time=f"{day}T10:00:00Z", **facts)


def test_the_days_are_counted_back_from_the_current_numbers() -> None:
    connection = recorded_database()
    changed(connection, "2026-02-10", None, {"status": "pending", "title": "T"})
    changed(connection, "2026-02-10", {"title": "T"}, {"title": "status"})
    changed(connection, "2026-02-12", {"status": "pending"}, {"status": "done"})
    changed(connection, "2026-02-12", {"status": "x"}, None, "features")
    changed(connection, "2026-02-12", {"status": "draft"}, None)
    changed(connection, "no day", None, {"status": "done"})
    found = read_days(rows_of(connection), {"done": 2, "pending": 3})

    assert {
        date(2026, 2, 12): {"done": 2, "pending": 3},
        date(2026, 2, 10): {"done": 1, "pending": 4, "draft": 1},
        date(2026, 2, 9): {"done": 1, "pending": 3, "draft": 1},
    } == found


def test_without_a_change_there_are_no_days() -> None:
    assert {} == read_days(rows_of(recorded_database()), {"done": 1})


@pytest.mark.parametrize("text", ['{"status"', '["status"]', '"status"', '{"status": [1]}'])
def test_a_change_of_any_content_is_read(text: str) -> None:
    connection = recorded_database()
    facts = {"table_name": "tasks", "row_key": "1", "before": text, "after": text}
    add_row(connection, "journal", time="2026-02-10T10:00:00Z", **facts)

    assert 2 == len(read_days(rows_of(connection), {"done": 1}))


def test_a_night_has_the_costs_of_its_ended_sessions() -> None:
    connection = recorded_database()
    agent = {"agent": "claude", "outcome": "done"}
    night = [("22:00", 1.5, None), ("22:30", None, 2.0), ("23:00", None, None)]
    for at, (begun, known, estimated) in enumerate(night):
        times = {"started": f"2026-02-10T{begun}:00Z", "ended": f"2026-02-10T{begun}:20Z"}
        costs = {"cost_usd": known, "estimated_usd": estimated}
        add_session(connection, f"s-{at}", **agent, **times, **costs)
    add_session(connection, "later", agent="claude", started="2026-02-12T22:00:00Z")
    add_session(connection, "user", started="2026-02-13T22:00:00Z", ended="2026-02-13T22:01:00Z")
    rows = rows_of(connection)
    alone, both = read_pictures(rows, {}, UTC), read_pictures(rows, {})

    assert alone is not None
    assert both is not None
    assert (("10 Feb", "about $3.50 + 1 unknown"),) == alone["nights"].rows
    assert ["about $3.50 + 1 unknown", "cost unknown"] == [cost for _, cost in both["nights"].rows]


def test_without_a_ledger_there_are_no_pictures() -> None:
    assert read_pictures(rows_of(lax_database()), {"done": 1}) is None
