"""Undoing a session among random writes of others, checked with a record of all writers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from histories import Rows, Writer, choices, make_database, rows_of, writers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.ledger.undo import Undone, undo_session

VALUES = ("x", "X", 1, 1.0, 0.1, None, b"\x00\xff", "\u00e9", 2**62, float("inf"))
HOMES = ("here", "there", "gone")
Choose = Callable[[int], int]


Touched = dict[tuple[str, tuple[object, ...]], set[str]]


def any_write(choose: Choose) -> tuple[str, tuple[object, ...]]:
    """A statement of any kind on any table, by the numbers below a number that `choose` gives."""
    value, home = VALUES[choose(len(VALUES))], HOMES[choose(len(HOMES))]
    number, other = 1 + choose(12), 1 + choose(12)
    writes: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("INSERT OR IGNORE INTO homes VALUES (?, ?)", (home, str(other))),
        ("UPDATE homes SET note = ? WHERE name = ?", (str(other), home)),
        ("DELETE FROM homes WHERE name = ?", (home,)),
        ("INSERT OR IGNORE INTO tasks (id, title, any) VALUES (?, 't', ?)", (number, value)),
        ("UPDATE tasks SET any = ?, whole = ? WHERE id = ?", (value, other, number)),
        ("UPDATE tasks SET title = ? WHERE id = ?", (str(other), number)),
        ("UPDATE OR IGNORE tasks SET home = ? WHERE id = ?", (None, number)),
        ("UPDATE OR IGNORE tasks SET code = ? WHERE id = ?", (f"code {other}", number)),
        ("DELETE FROM tasks WHERE id = ?", (number,)),
        (
            "INSERT OR IGNORE INTO task_comments SELECT ?, id, NULL, ? FROM tasks WHERE id = ?",
            (number + other, str(value), number),
        ),
        ("UPDATE task_comments SET body = ? WHERE id = ?", (str(value), number)),
        ("REPLACE INTO pairs VALUES (?, ?, ?)", (home, number % 4, value)),
        ("UPDATE OR REPLACE pairs SET two = ? WHERE two = ?", (number % 4, other % 4)),
        ("INSERT INTO loose VALUES (?, ?)", (home, number)),
        ('UPDATE loose SET "it\'s" = ? WHERE rowid = ?', (other, number)),
        ("DELETE FROM loose WHERE rowid = ?", (number,)),
    )
    return writes[choose(len(writes))]


def write_at_random(opened: list[Writer], path: Path, choose: Choose, number: int) -> Touched:
    """Make so many writes by the sessions in turn; return who has touched each row."""
    touched: Touched = {}
    now = rows_of(path)
    for _ in range(number):
        writer = opened[choose(len(opened))]
        sql, values = any_write(choose)
        writer.write(sql, *values)
        before, now = now, rows_of(path)
        for row in {*before, *now}:
            if before.get(row) != now.get(row):
                touched.setdefault(row, set()).add(writer.session)
    return touched


def refuse_wrong_undo(
    undone: Undone, touched: Touched, before: Rows, after: Rows, now: Rows
) -> None:
    """Hold that rows of the session alone are as before, and others as after it, and named."""
    left = {(row.table, row.key): row.left for row in undone.rows if row.left}
    done = {(row.table, row.key) for row in undone.rows if row.done}
    for row in {*before, *after, *now}:
        who = touched.get(row, set())
        if row in left:
            assert after.get(row) == now.get(row), row
            is_moved = row[0] == "pairs"  # others may have changed it under another key
            assert len(who) > 1 or is_moved or "changed it later" not in left[row], row
        elif who == {"a"}:
            assert before.get(row) == now.get(row), row
        elif row not in done:
            assert after.get(row) == now.get(row), row
        else:
            assert "a" in who, row
    assert not [row for row in done if "a" not in touched.get(row, ())]


def test_after_a_thousand_writes_by_four_only_one_is_undone(tmp_path: Path) -> None:
    """All rows are read after each write, so that the writer of every value is known."""
    path, choose = make_database(tmp_path), choices(7)
    with writers(path, "first", "a", "b", "c", "d") as (first, *opened):
        write_at_random([first], path, choose, 60)
        before = rows_of(path)
        touched = write_at_random(opened, path, choose, 1_000)
        after = rows_of(path)
    undone = undo_session(tmp_path, "a")
    now = rows_of(path)

    refuse_wrong_undo(undone, touched, before, after, now)
    assert undone.changed
    assert undone.has_remainder
    undo_session(tmp_path, undone.session)
    assert after == rows_of(path)


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32), number=st.integers(1, 40))
@example(seed=14452, number=30)  # undoes a session without entries
def test_any_few_writes_are_undone(
    tmp_path_factory: pytest.TempPathFactory, seed: int, number: int
) -> None:
    root, choose = tmp_path_factory.mktemp("undone"), choices(seed)
    path = make_database(root)
    with writers(path, "first", "a", "b") as (first, *opened):
        write_at_random([first], path, choose, 12)
        before = rows_of(path)
        touched = write_at_random(opened, path, choose, number)
        after = rows_of(path)
    undone = undo_session(root, "a") if any("a" in who for who in touched.values()) else None
    if undone is None:
        return
    refuse_wrong_undo(undone, touched, before, after, rows_of(path))
    again = undo_session(root, undone.session)
    assert not again.has_remainder
    assert after == rows_of(path)
