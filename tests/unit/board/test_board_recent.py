"""The latest comments and notes, in any number and with any content."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from board_rows import add_task, lax_database, stands

from ralphgen.board.overview import MOST_CHARACTERS, NEWEST, SHORT
from ralphgen.board.text import LONG_TEXT
from ralphgen.runtime.files.entry_log import append_entry


def learning(text: str, created: object, **more: object) -> dict[str, Any]:
    return {"text": text, "source": "agent", "created": created, **more}


def test_the_newest_comments_come_first_with_their_task() -> None:
    connection = lax_database()
    add_task(connection, 1, "done", title="Log in")
    for at in range(NEWEST + 5):
        comment = "INSERT INTO task_comments VALUES (?, ?, 'me', NULL, ?, '2026-02-10T10:00:00Z')"
        connection.execute(comment, (at, 1 if at % 2 else 99, f"said {at}"))
    found = stands(connection).comments

    assert (NEWEST + 5, NEWEST) == (found.total, len(found.newest))
    assert [f"said {at}" for at in range(NEWEST + 4, 4, -1)] == [one.body for one in found.newest]
    assert {(1, "Log in"), (99, "")} == {(one.task, one.title) for one in found.newest}
    assert ("me", "") == (found.newest[0].author, found.newest[0].discipline)


def test_a_comment_is_cut_and_shown_without_what_no_page_can_hold() -> None:
    connection = lax_database()
    for body in ("x" * 1_000_000, " two\r\nlines\x1b[31m ", "y" * LONG_TEXT):
        connection.execute("INSERT INTO task_comments (task_id, body) VALUES (1, ?)", (body,))
    found = [one.body for one in stands(connection).comments.newest]

    assert ["y" * LONG_TEXT, "two\nlines[31m", "x" * LONG_TEXT + "…"] == found


def test_the_newest_learnings_of_all_features_come_first() -> None:
    connection = lax_database()
    lists = {
        "a": [learning("old", "2026-02-01T10:00:00+00:00"), learning("no date", "")],
        "b": [
            "bare",
            learning("new", "2026-02-03T10:00:00+02:00", hit_count=3, reviewed=True, reason="so"),
            learning("newest", "2026-02-03T09:00:00Z", hit_count="many", source="?"),
        ],
        "c": [learning("day", "2026-02-02"), learning("far", 7)],
    }
    for name, values in lists.items():
        insert = "INSERT INTO features (name, learnings) VALUES (?, ?)"
        connection.execute(insert, (name, json.dumps(values)))
    connection.execute("INSERT INTO features (name, learnings) VALUES ('d', '[{]'), ('e', '[]')")
    found = stands(connection).learnings

    assert (7, ("d",), 0) == (found.total, found.unreadable, found.not_looked_at)
    assert ["newest", "new", "day", "old"] == [one.text for one in found.newest][:4]
    assert {"no date", "bare", "far"} == {one.text for one in found.newest[4:]}
    assert [("auto", 1, False, ""), ("agent", 3, True, "so")] == [
        (one.source, one.hits, one.reviewed, one.reason) for one in found.newest[:2]
    ]


def test_learnings_are_bounded_in_number_and_in_what_is_read_for_them() -> None:
    connection = lax_database()
    insert = "INSERT INTO features (name, learnings) VALUES (?, ?)"
    many = [learning(f"l{at} \ud800", f"2026-02-03T10:{at % 60:02}:00Z") for at in range(300)]
    assert len(json.dumps(many)) > SHORT
    for name in ("a", "b"):
        connection.execute(insert, (name, json.dumps(many)))
    connection.execute(insert, ("c", json.dumps([learning("x" * MOST_CHARACTERS, "")])))
    found = stands(connection).learnings

    assert (600, NEWEST, 1) == (found.total, len(found.newest), found.not_looked_at)
    assert {59} == {int(one.created[14:16]) for one in found.newest[:10]}


def test_a_learning_that_was_changed_is_read_again() -> None:
    connection = lax_database()
    for text in ("first", "second"):
        connection.execute("DELETE FROM features")
        insert = "INSERT INTO features (name, learnings) VALUES ('a', ?)"
        connection.execute(insert, (json.dumps([learning(text, "")]),))

        assert [text] == [one.text for one in stands(connection).learnings.newest]


def test_notes_are_the_last_entries_of_the_state_files_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / ".ralph" / "learnings.txt"
    path.parent.mkdir()
    for at in range(NEWEST + 3):
        append_entry(str(path), "manual", f"entry {at}\nand more")
    progress, learnings = stands(lax_database(), tmp_path).notes

    assert ("progress.txt", 0, (), "") == (
        progress.file,
        progress.total,
        progress.newest,
        progress.problem,
    )
    assert (NEWEST + 3, NEWEST) == (learnings.total, len(learnings.newest))
    assert learnings.newest[0].endswith(f"[manual] entry {NEWEST + 2}\n    and more")


def test_a_state_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / ".ralph" / "progress.txt").mkdir(parents=True)
    (tmp_path / ".ralph" / "learnings.txt").write_bytes(b"\xff one\n\x1b two\n" + b"z" * 100_000)
    progress, learnings = stands(lax_database(), tmp_path).notes

    assert '"progress.txt"' in progress.problem
    assert "z" * LONG_TEXT + "…" == learnings.newest[0]
    assert "" == learnings.problem


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_place_of_a_state_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    os.mkfifo(tmp_path / ".ralph" / "progress.txt")

    assert (
        '"progress.txt" is not a regular file' == stands(lax_database(), tmp_path).notes[0].problem
    )
