"""Odd rows from other programs: read without loss, and never rewritten without a request."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from driving import ROWS, SCHEMAS, Driver, connected, create_database, query, quiet

from ralphgen.emit.workflows import regenerate

LISTS = ("tags", "acceptance_criteria", "context_files", "output_artifacts")
ODD_LISTS: dict[str, tuple[object, Any]] = {  # stored value, decoded value; None if unreadable
    "null": (None, []),
    "the word": ("null", []),
    "blank": (" \n", []),
    "spaced": ('[ "a" , "b" ]', ["a", "b"]),
    "escaped": (r"[\"a\",\"b\"]", ["a", "b"]),
    "semicolons": ("a; b ;;c", ["a", "b", "c"]),
    "raw newline": ('["a\nb"]', ["a\nb"]),
    "numbers": ("[1,2]", ["1", "2"]),
    "huge number": (f"[{10**30}]", [str(10**30)]),
    "cut off": ('["a","b', None),
    "an object": ('{"a":1}', None),
    "a text": ('"a"', None),
    "nested": ('[["a"]]', None),
    "very deep": ("[" * 5_000, None),
    "blob": (b'["a"]', None),
    "no utf-8": (sqlite3.Binary(b"\xff\xfe"), None),
    "half a pair": ('["\\ud800"]', ["\ufffd"]),
}
DATES = ("2026-02-10", "2026-02-10T17:56:00Z", "2026-02-10 17:56:00", "2026-02-10T17:56:00+00:00")


def insert(connection: sqlite3.Connection, table: str, **values: object) -> int:
    names = ", ".join(values)
    marks = ", ".join("?" * len(values))
    sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
    return connection.execute(sql, list(values.values())).lastrowid or 0


def fill(connection: sqlite3.Connection) -> None:
    """Insert rows that no tool would write; the bash server had foreign keys off."""
    connection.execute("PRAGMA foreign_keys = OFF")
    base = {"feature": "auth", "discipline": "backend"}
    for at, (name, (stored, _)) in enumerate(ODD_LISTS.items()):
        lists = dict.fromkeys(LISTS, stored)
        insert(connection, "tasks", id=100 + at, **base, title=name, depends_on=stored, **lists)
    odd: list[dict[str, object]] = [
        {"status": "on hold", "priority": "urgent"},
        {"status": "", "title": "", "priority": ""},
        {"status": sqlite3.Binary(b"\xff"), "title": b"blob \xff", "description": b"\x00\x01"},
        {"feature": "gone", "discipline": "nobody"},
        {"feature": b"auth", "discipline": b"backend"},
        {"estimated_turns": 2**63 - 1, "depends_on": f"[{10**30}, -1, 1]"},
        {"estimated_turns": 1e999, "depends_on": "007; 1"},
        {"estimated_turns": "many", "title": "nul \0 inside"},
        {"depends_on": "[200]", "id": 200},
    ]
    odd += [{"created": date, "updated": date, "completed": date} for date in DATES]
    for at, columns in enumerate(odd):
        insert(connection, "tasks", **{"id": 201 + at, **base, "title": "odd", **columns})
    names: list[tuple[object, object]] = [
        ("", "EMPT"), (None, "NULL"), (b"auth", "BLOB"), (b"\xff\xfe", "BADB"),
        ("Auth Flow", "SPCE"), ("e\u0301", "EACU"), ("line\nbreak", "LINE"),
        ("x" * 5_000, "LONG"), ("xylophone", "XYLO"), ("z", b"\xff"),
    ]  # fmt: skip
    for named, acronym in names:
        insert(connection, "features", name=named, display_name=b"D", acronym=acronym)
        insert(connection, "disciplines", name=named, display_name="D", acronym=acronym,
               icon="I", color="", skills="a;b", mcp_servers="{oops")  # fmt: skip
    connection.execute("INSERT INTO features (name, display_name, acronym) "
                       "VALUES (CAST(x'61ff' AS TEXT), 'bad utf-8', 'BADU')")  # fmt: skip
    connection.execute("UPDATE features SET learnings = NULL, context_files = 'a;b', "
                       "dependencies = '[[' WHERE name = 'search'")  # fmt: skip
    deep = "[" * 400 + "]" * 400
    learnings = f'[{{"text":"t","source":7,"hit_count":"x","more":{deep}}}, "bare \\udfff"]'
    connection.execute("UPDATE features SET learnings = ? WHERE name = 'auth'", [learnings])
    for author, created in ((b"\xff", DATES[2]), ("", "yesterday")):
        insert(connection, "task_comments", task_id=1, author=author, body=b"\xfe",
               discipline="nobody", priority="?", created=created)  # fmt: skip
    insert(connection, "task_comments", task_id=999, author="a", body="dangling")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd")
    schema = (SCHEMAS / "a8.sql").read_text(encoding="utf-8").replace(" STRICT", "")
    path = create_database(root, schema, ROWS)
    with closing(sqlite3.connect(path)) as connection:
        fill(connection)
        connection.commit()
    regenerate(root, force=False, say=quiet)
    return root


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[Driver]:
    with connected(project) as driver:
        yield driver


def dump(project: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every value of every row with its type, text as bytes."""
    tables = ("metadata", "features", "disciplines", "tasks", "task_comments")
    with closing(sqlite3.connect(project / ".ralph" / "db" / "ralph.db")) as connection:
        connection.text_factory = bytes
        columns = {
            table: [row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in tables
        }
        return {
            table: connection.execute(
                "SELECT rowid, "
                + ", ".join(f"typeof({column}), CAST({column} AS BLOB)" for column in names)
                + f" FROM {table} ORDER BY rowid"
            ).fetchall()
            for table, names in columns.items()
        }


def pages(server: Driver, tool: str, key: str, limit: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"total": 0}
    cursor: str | None = None
    for _ in range(200):
        answer = server.call(tool, limit=limit, cursor=cursor)
        rows += answer[key]
        cursor = answer.get("next_cursor")
        if cursor is None:
            break

    assert (None, answer["total"]) == (cursor, len(rows))
    return rows


def test_every_reading_tool_answers_and_changes_nothing(project: Path, server: Driver) -> None:
    before = dump(project)
    ids = [row["id"] for row in pages(server, "list_tasks", "tasks", 7)]
    texts = [server.ask("get_task", {"id": task}) for task in ids]
    texts += [
        server.ask(tool, {"name": name})
        for tool in ("get_feature", "get_discipline")
        for name in ("auth", "", "Auth Flow", "x" * 5_000, "line\nbreak", "z")
        if (tool, name) != ("get_discipline", "auth")
    ]
    texts += [server.ask(tool) for tool in ("get_project_info", "get_project_progress")]

    assert [row[0] for row in query(project, "SELECT id FROM tasks ORDER BY id")] == ids
    assert [] == [text for failed, text in texts if failed or len(text) > 40_000]
    assert before == dump(project)


@pytest.mark.parametrize("limit", [1, 3, 200])
@pytest.mark.parametrize(
    ("tool", "key"), [("list_features", "features"), ("list_disciplines", "disciplines")]
)
def test_rows_with_odd_names_are_listed_once_each(
    project: Path, server: Driver, tool: str, key: str, limit: int
) -> None:
    acronyms = [row.get("acronym") for row in pages(server, tool, key, limit)]
    stored = [row[0] for row in query(project, f"SELECT acronym FROM {key}")]
    expected = [
        name.decode(errors="replace") if isinstance(name, bytes) else name for name in stored
    ]

    assert sorted(expected) == sorted(name or "" for name in acronyms)


@pytest.mark.parametrize("name", ODD_LISTS)
def test_a_list_is_read_leniently_or_shown_unchanged(server: Driver, name: str) -> None:
    at = list(ODD_LISTS).index(name)
    stored, expected = ODD_LISTS[name]
    task = server.call("get_task", id=100 + at)

    if expected is None:
        text = (
            bytes(stored).decode(errors="replace")
            if isinstance(stored, (bytes, memoryview))
            else stored
        )

        assert text == task["unreadable"]["tags"]
        assert "tags" not in task
        assert "unknown" == task["inferred"]
    else:
        assert expected == task.get("tags", [])
        assert "tags" not in task.get("unreadable", {})


def test_unknown_statuses_and_numbers_are_shown_unchanged(server: Driver) -> None:
    hold, empty, *_ = (server.call("get_task", id=task) for task in (201, 202))
    huge, infinite, many = (server.call("get_task", id=task) for task in (206, 207, 208))

    assert ("on hold", "urgent", "unknown") == (hold["status"], hold["priority"], hold["inferred"])
    assert "status" not in empty
    assert (2**63 - 1, "inf", "many") == tuple(
        task["estimated_turns"] for task in (huge, infinite, many)
    )
    assert [{"id": 10**30, "missing": True}, {"id": -1, "missing": True}] == huge["dependencies"][
        :2
    ]
    assert [7, 1] == [row["id"] for row in infinite["dependencies"]]


def test_dangling_rows_are_found_by_the_names_they_bear(server: Driver) -> None:
    for name, value in (("feature", "gone"), ("discipline", "nobody")):
        listed = server.call("list_tasks", **{f"filter_{name}": value})

        assert [204] == [task["id"] for task in listed["tasks"]]


def test_names_of_other_types_do_not_spoil_a_suggestion(server: Driver) -> None:
    assert 'did you mean "auth"?' in server.refusal("get_feature", name="auht")
    assert 'did you mean "backend"?' in server.refusal("get_discipline", name="bakcend")
    assert "there are" in server.refusal("get_feature", name="q" * 50_000)
    assert len(server.refusal("get_feature", name="q" * 50_000)) < 3_000


def test_changes_elsewhere_leave_odd_values_byte_for_byte(project: Path, server: Driver) -> None:
    """One call of every changing tool; apart from what it names, no byte may differ."""
    before = dump(project)
    ids = [row[0] for row in before["tasks"]]
    for task in ids:
        server.call("update_task", id=task, hints="changed")
        query(project, "UPDATE tasks SET hints = NULL, updated = NULL WHERE id = ?", task)
    for name in ("", "Auth Flow", "x" * 5_000, "line\nbreak", "search"):
        server.call("update_feature", name=name, architecture="changed")
    query(project, "UPDATE features SET architecture = NULL")
    for name in ("", "Auth Flow", "x" * 5_000, "line\nbreak"):
        server.call("update_discipline", name=name, conventions="changed")
    query(project, "UPDATE disciplines SET conventions = NULL")
    made = server.call("create_feature", name="new", display_name="New")
    server.call("delete_feature", name="new")
    after = dump(project)
    query(project, "UPDATE tasks SET updated = '2026-02-10' WHERE id = 210")

    assert "NEWW" == made["acronym"]
    assert before["features"] == after["features"]
    assert before["disciplines"] == after["disciplines"]
    columns = [row[1] for row in query(project, "PRAGMA table_info(tasks)")]
    stamp = 1 + 2 * columns.index("updated")
    for old, new in zip(before["tasks"], after["tasks"], strict=True):
        assert old[:stamp] + old[stamp + 2 :] == new[:stamp] + new[stamp + 2 :]


def test_moves_and_enrichments_leave_odd_lists_alone(project: Path, server: Driver) -> None:
    columns = f"{', '.join(LISTS)}, depends_on"
    for at in range(len(ODD_LISTS)):
        sql = f"SELECT {columns} FROM tasks WHERE id = ?"
        with closing(sqlite3.connect(project / ".ralph" / "db" / "ralph.db")) as connection:
            connection.text_factory = bytes
            before = connection.execute(sql, [100 + at]).fetchall()
            server.call("set_task_status", id=100 + at, status="draft")
            server.call("enrich_task", id=100 + at, pseudocode="p")
            server.call("add_task_comment", task_id=100 + at, author="human", body="b")

            assert before == connection.execute(sql, [100 + at]).fetchall()


def test_a_new_dependency_of_an_odd_task_is_checked_all_the_same(server: Driver) -> None:
    assert ["depends_on"] == server.call("update_task", id=206, depends_on=[1])["changed"]
    assert "a cycle: 1 → 206 → 1" in server.refusal("update_task", id=1, depends_on=[206])


def test_a_file_is_added_to_a_list_that_is_read_leniently(project: Path, server: Driver) -> None:
    server.call("add_feature_context_file", feature_name="search", file_path="c")
    server.call("append_feature_learning", feature_name="search", text="From nothing")
    ((files, learnings, dependencies),) = query(
        project, "SELECT context_files, learnings, dependencies FROM features WHERE name = 'search'"
    )

    assert (["a", "b", "c"], "[[") == (json.loads(files), dependencies)
    assert ["From nothing"] == [entry["text"] for entry in json.loads(learnings)]


def test_a_task_that_waits_for_itself_can_be_deleted(server: Driver) -> None:
    assert 200 == server.call("delete_task", id=200)["deleted"]
