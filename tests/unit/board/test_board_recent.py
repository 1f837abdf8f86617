"""Progress and learnings on the project's page, in any number and with any content."""

import json
import sqlite3
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from board_rows import add_row, add_task, lax_database, recorded_database, rows_of
from ledger_rows import add_session

from ralphgen.board.progress import (
    MOST_CHARACTERS,
    NEWEST,
    OTHERS,
    SHORT,
    STATUS_NAMES,
    FeatureProgress,
    read_days,
    read_learnings,
    read_nights,
    read_progress,
)
from ralphgen.board.text import LONG_TEXT

FEATURE = "INSERT INTO features (name, display_name) VALUES (?, ?)"
LEARNED = "INSERT INTO features (name, learnings) VALUES (?, ?)"


def learning(text: str, created: object, **more: object) -> dict[str, Any]:
    return {"text": text, "source": "agent", "created": created, **more}


def counts(found: FeatureProgress) -> Mapping[str, int]:
    assert [one.start for one in found.shares] == [
        sum(one.count for one in found.shares[:at]) for at in range(len(found.shares))
    ]
    return {one.status: one.count for one in found.shares}


def test_a_feature_counts_its_tasks_by_status_and_drafts_are_no_work() -> None:
    connection = lax_database()
    connection.execute(FEATURE, ("a", "Import"))
    connection.execute(FEATURE, ("b", ""))
    for number, status in enumerate(["done", "done", "pending", "draft", "skipped", "blocked"]):
        add_task(connection, number, status, feature="a")
    add_task(connection, 99, "done", feature="gone")
    found = read_progress(rows_of(connection))
    first, second, third = found.features

    assert [("b", True, 0), ("gone", False, 1), ("Import", True, 6)] == [
        (one.title, one.known, one.total) for one in found.features
    ]
    assert {"done": 2, "blocked": 1, "pending": 1, "draft": 1, "skipped": 1} == counts(third)
    assert (4, 2, 50) == (third.actionable, third.done, third.percent)
    assert ({}, {"done": 1}) == (counts(first), counts(second))
    assert (7, 3, 60) == (found.overall.total, found.overall.done, found.overall.percent)


def test_rare_statuses_are_counted_together() -> None:
    connection = lax_database()
    for number in range(STATUS_NAMES + 10):
        for task in range(2 if number < STATUS_NAMES else 1):
            add_task(connection, number * 10 + task, f"status {number}")
    found = read_progress(rows_of(connection))

    assert 10 == counts(found.overall)[OTHERS]
    assert 10 == counts(found.features[0])[OTHERS]
    assert STATUS_NAMES + 1 == len(found.overall.shares)


@pytest.mark.parametrize("value", [None, 7, b"\xff", "\ud800", "a\x1b[31m\n", "x" * 1_000])
def test_names_of_any_kind_are_shown_on_one_line(value: object) -> None:
    connection = lax_database()
    try:
        add_task(connection, 1, value, feature=value)
    except UnicodeEncodeError:
        return  # no database holds it
    found = read_progress(rows_of(connection))

    assert 1 == found.overall.total
    assert all(one.status.isprintable() for one in found.overall.shares)
    assert found.features[0].title.isprintable()


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

    assert (7, ("d",), 0) == (found.total, found.unreadable, found.not_looked_at)
    assert ["newest", "new", "day", "old"] == [one.text for one in found.newest][:4]
    assert {"no date", "bare", "far"} == {one.text for one in found.newest[4:]}
    assert [("auto", ""), ("agent", "so")] == [(one.source, one.reason) for one in found.newest[:2]]


def test_learnings_are_bounded_in_number_and_in_what_is_read_for_them() -> None:
    connection = lax_database()
    many = [learning(f"l{at} \ud800", f"2026-02-03T10:{at % 60:02}:00Z") for at in range(300)]
    assert len(json.dumps(many)) > SHORT
    for name in ("a", "b"):
        connection.execute(LEARNED, (name, json.dumps(many)))
    connection.execute(LEARNED, ("c", json.dumps([learning("x" * MOST_CHARACTERS, "")])))
    found = read_learnings(rows_of(connection))

    assert (600, NEWEST, 1) == (found.total, len(found.newest), found.not_looked_at)
    assert {59} == {int(one.created[14:16]) for one in found.newest[:10]}


def test_a_learning_that_was_changed_is_read_again() -> None:
    connection = lax_database()
    for text in ("first", "x" * 1_000):
        connection.execute("DELETE FROM features")
        connection.execute(LEARNED, ("a", json.dumps([learning(text, "")])))
        (found,) = read_learnings(rows_of(connection)).newest

        assert text[:LONG_TEXT] == found.text.removesuffix("…")


def test_without_the_column_it_is_told_why_there_are_none() -> None:
    connection = lax_database()
    connection.execute("ALTER TABLE features DROP COLUMN learnings")

    assert 'has no column "learnings"' in read_learnings(rows_of(connection)).lacks


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
    ((begin, spent),) = read_nights(rows_of(connection))
    both = read_nights(rows_of(connection), ())

    assert ("2026-02-10T22:00:00+00:00", 3) == (begin.isoformat(), spent.count)
    assert (1.5, 2.0, 1) == (spent.known, spent.estimated, spent.unknown)
    assert [3, 1] == [one.count for _, one in both]
