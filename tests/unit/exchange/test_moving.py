"""Rows move between projects without loss: merged by what both had, all of them or none."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cases import INIT_SCHEMA
from driving import ROWS, create_database, query, quiet
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.errors import ProjectError
from ralphgen.exchange.merge import RowEdit
from ralphgen.exchange.move import BASE, export_file, export_text, import_rows
from ralphgen.ledger.tables import definition
from ralphgen.project.root import DATABASE

SECRETS = [{"name": "tickets", "command": "npx", "args": ["-y"], "env": {"TOKEN": "s3cret"}}]
REMOTE = [{"name": "r", "type": "http", "url": "https://a:b@t.example/mcp?key=1", "headers": {}}]
Pair = tuple[Path, Path]


@pytest.fixture
def pair(root: Path, tmp_path: Path) -> Pair:
    """Two projects that had everything in common when one exported it, and the exported file."""
    file = tmp_path / "rows.jsonl"
    export_file(root, file)
    shutil.copytree(root, tmp_path / "theirs")
    return root, tmp_path / "theirs"


def take(root: Path, file: Path, **options: Any) -> tuple[RowEdit, ...]:
    given = {"is_database": False, "dry_run": False, "allow_removals": False, "say": quiet}
    return import_rows(root, file, **{**given, **options})


def exported(root: Path) -> Path:
    file = root.with_suffix(".jsonl")
    export_file(root, file)
    return file


def lines(changes: tuple[RowEdit, ...]) -> list[str]:
    return [str(change) for change in changes]


def test_an_export_is_sorted_rows_one_a_line_without_our_own_tables(root: Path) -> None:
    found = [json.loads(line) for line in export_text(root).splitlines()]
    keys = [(one["table"], one["row"].get("id") or one["row"]["name"]) for one in found]

    assert sorted(keys) == keys
    assert {"disciplines", "features", "metadata", "tasks"} == {one["table"] for one in found}


@pytest.mark.parametrize("name", [DATABASE, "notes.md", "rows.jsonl"])
def test_no_other_file_is_written_over(root: Path, name: str) -> None:
    file = root / name
    if name != DATABASE:
        file.write_text('<<<<<<< HEAD\n{"table": "tasks"}\n', encoding="utf-8")
    before = file.read_bytes()
    with pytest.raises(ProjectError, match="exists and is not an export"):
        export_file(root, file)

    assert before == file.read_bytes()
    assert not (root / BASE).exists()


def test_hidden_columns_are_not_exported(root: Path) -> None:
    settings = '[schema]\nhide = ["tasks.hints"]\n'
    (root / ".ralph/ralphgen.toml").write_text(settings, encoding="utf-8")

    assert '"hints"' not in export_text(root)
    assert '"description"' in export_text(root)


def test_secrets_are_masked_and_kept_if_known(pair: Pair) -> None:
    ours, theirs = pair
    for root in pair:
        query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SECRETS))
    exported(ours)
    query(theirs, "UPDATE disciplines SET mcp_servers = ?", json.dumps([*SECRETS, *REMOTE]))
    file = exported(theirs)
    take(ours, file)
    (stored,) = query(ours, "SELECT mcp_servers FROM disciplines")[0]

    assert "s3cret" not in file.read_text(encoding="utf-8")
    assert "a:b@" not in file.read_text(encoding="utf-8")
    assert SECRETS[0] == json.loads(stored)[0]
    assert "***" not in json.dumps(json.loads(stored)[0])


def test_credentials_in_arguments_are_masked_and_kept_if_known(pair: Pair) -> None:
    ours, theirs = pair
    servers = [{"name": "a", "command": "npx", "args": ["-y", "--token=s3cret", "-p", "s3cret"]}]
    for root in pair:
        query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(servers))
    exported(ours)
    query(theirs, "UPDATE disciplines SET conventions = 'new'")
    file = exported(theirs)
    take(ours, file)

    assert "s3cret" not in file.read_text(encoding="utf-8")
    kept = query(ours, "SELECT mcp_servers, conventions FROM disciplines")
    assert {(json.dumps(servers), "new")} == {*kept}


def test_a_secret_is_not_given_to_a_server_that_runs_another_program(pair: Pair) -> None:
    ours, theirs = pair
    changed = [{**SECRETS[0], "command": "evil"}]
    query(ours, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SECRETS))
    exported(ours)
    query(theirs, "UPDATE disciplines SET mcp_servers = ?", json.dumps(changed))
    said: list[str] = []
    take(ours, exported(theirs), say=said.append)
    (stored,) = query(ours, "SELECT mcp_servers FROM disciplines")[0]

    assert [{**changed[0], "env": {"TOKEN": "***"}}] == json.loads(stored)
    assert any("secrets" in line for line in said)


def test_changes_of_one_side_are_merged_by_column(pair: Pair) -> None:
    ours, theirs = pair
    query(ours, "UPDATE tasks SET priority = 'high', updated = '2026-11-02' WHERE id = 1")
    query(theirs, "UPDATE tasks SET title = 'Sign in', updated = '2026-11-03' WHERE id = 1")
    query(
        theirs,
        "INSERT INTO tasks (id, feature, discipline, title) SELECT 3, 'auth', 'backend', 'x'",
    )
    changes = take(ours, exported(theirs))

    assert ["change task 1: title, updated", 'add task 3 "x"'] == lines(changes)
    assert [("Sign in", "high", "2026-11-03")] == query(
        ours, "SELECT title, priority, updated FROM tasks WHERE id = 1"
    )


def test_a_conflict_names_each_and_writes_nothing(pair: Pair) -> None:
    ours, theirs = pair
    query(ours, "UPDATE tasks SET title = 'a', status = 'done' WHERE id = 1")
    query(theirs, "UPDATE tasks SET title = 'b' WHERE id = 1")
    query(ours, "DELETE FROM tasks WHERE id = 2")
    query(theirs, "UPDATE tasks SET title = 'c' WHERE id = 2")
    query(theirs, "UPDATE features SET description = 'new'")
    before = export_text(ours)
    base = (ours / BASE).read_bytes()
    with pytest.raises(ProjectError) as caught:
        take(ours, exported(theirs))

    assert [
        'task 1: "title" is "a" here and "b" there',
        "task 2 was deleted here and changed there",
    ] == [problem.text for problem in caught.value.problems]
    assert before == export_text(ours)
    assert base == (ours / BASE).read_bytes()
    assert not (ours / ".ralph/backups").exists()


def test_a_second_import_changes_nothing(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET title = 'b' WHERE id = 1")
    file = exported(theirs)
    query(ours, "UPDATE tasks SET title = 'c' WHERE id = 2")
    take(ours, file)
    after = export_text(ours)

    assert () == take(ours, file)
    assert after == export_text(ours)
    assert "c" == query(ours, "SELECT title FROM tasks WHERE id = 2")[0][0]


def test_rows_missing_there_are_deleted_only_if_allowed(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "DELETE FROM tasks WHERE id = 2")
    file = exported(theirs)
    with pytest.raises(ProjectError, match="task 2") as caught:
        take(ours, file)

    assert "--allow-removals" in str(caught.value)
    assert ["remove task 2"] == lines(take(ours, file, allow_removals=True))
    assert [(1,)] == query(ours, "SELECT id FROM tasks")


def test_referenced_rows_are_not_removed(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "DELETE FROM features WHERE name = 'search'")
    query(
        ours,
        "INSERT INTO tasks (id, feature, discipline, title) SELECT 9, 'search', 'backend', 'x'",
    )
    with pytest.raises(ProjectError, match='the feature "search" is missing, but task 9 needs it'):
        take(ours, exported(theirs), allow_removals=True)

    assert [("auth",), ("search",)] == query(ours, "SELECT name FROM features ORDER BY 1")


def test_a_task_that_another_waits_for_is_not_removed(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET depends_on = '[]'")
    query(theirs, "DELETE FROM tasks WHERE id = 1")
    query(
        ours,
        "INSERT INTO tasks (id, feature, discipline, title, depends_on) "
        "SELECT 9, 'auth', 'backend', 'x', '[1]'",
    )
    with pytest.raises(ProjectError, match="task 1 is missing, but task 9 needs it"):
        take(ours, exported(theirs), allow_removals=True)

    assert [(1,)] == query(ours, "SELECT id FROM tasks WHERE id = 1")


def test_an_unknown_status_is_reported(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET status = 'odd' WHERE id = 1")
    said: list[str] = []
    take(ours, exported(theirs), say=said.append)

    assert any('the status of task 1 is "odd"' in line for line in said)


def test_two_comments_of_one_number_are_both_kept_once(pair: Pair) -> None:
    ours, theirs = pair
    for root, body in ((ours, "a"), (theirs, "b")):
        query(
            root,
            "INSERT INTO task_comments (id, task_id, author, body) SELECT 1, 1, 'ada', ?",
            body,
        )
    file = exported(theirs)
    take(ours, file)
    (ours / BASE).unlink()
    take(ours, file)

    assert [(1, "a"), (2, "b")] == query(ours, "SELECT id, body FROM task_comments ORDER BY id")


@pytest.mark.parametrize("strict", [False, True])
def test_tasks_may_not_come_to_wait_for_each_other(pair: Pair, *, strict: bool) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET depends_on = '[3]' WHERE id = 1")
    query(
        ours,
        "INSERT INTO tasks (id, feature, discipline, title, depends_on)"
        " VALUES (3, 'auth', 'backend', 'x', '[1]')",
    )
    before = export_text(ours)
    with pytest.raises(ProjectError, match="wait for each other"):
        take(ours, exported(theirs), strict=strict)
    assert before == export_text(ours)


@pytest.mark.parametrize("strict", [False, True])
def test_tasks_that_wait_for_each_other_in_the_file_are_imported(
    pair: Pair, *, strict: bool
) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET depends_on = '[' || (3 - id) || ']'")
    said: list[str] = []
    take(ours, exported(theirs), say=said.append, strict=strict)
    assert any("wait for each other" in line for line in said)


def test_without_a_common_past_only_new_rows_come(root: Path, tmp_path: Path) -> None:
    file = exported(root)
    shutil.copytree(root / ".ralph/db", tmp_path / "p/.ralph/db")
    query(tmp_path / "p", "UPDATE tasks SET status = 'done' WHERE id = 1")
    query(tmp_path / "p", "DELETE FROM tasks WHERE id = 2")
    said: list[str] = []

    assert ['add task 2 "Show the form"'] == lines(take(tmp_path / "p", file, say=said.append))
    assert "different here and there, kept unchanged: task 1" in said
    assert [("done",)] == query(tmp_path / "p", "SELECT status FROM tasks WHERE id = 1")


def test_another_database_is_imported_as_its_export(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET title = 'b' WHERE id = 1")

    assert ["change task 1: title"] == lines(take(ours, theirs / DATABASE, is_database=True))


def test_a_dry_run_tries_it_and_leaves_nothing(pair: Pair) -> None:
    ours, theirs = pair
    query(theirs, "UPDATE tasks SET title = 'b' WHERE id = 1")
    before = export_text(ours)

    assert ["change task 1: title"] == lines(take(ours, exported(theirs), dry_run=True))
    assert before == export_text(ours)
    assert not (ours / ".ralph/backups").exists()


def test_an_import_is_in_the_journal_and_leaves_a_backup(pair: Pair) -> None:
    ours, theirs = pair
    with closing(sqlite3.connect(ours / DATABASE)) as connection:
        connection.executescript(definition())
        connection.execute("INSERT INTO ralphgen_ledger (created) VALUES ('2026-01-01')")
        connection.commit()
    query(theirs, "UPDATE tasks SET title = 'b' WHERE id = 1")
    take(ours, exported(theirs))

    assert [("tasks", "1", "import")] == query(
        ours, "SELECT table_name, row_key, tool FROM ralphgen_journal"
    )
    assert 1 == len([*(ours / ".ralph/backups").glob("*.db")])


def test_a_refusal_of_the_database_is_named_and_nothing_remains(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        {"table": "features", "row": {"name": "pay", "display_name": "Pay", "acronym": "PAY"}},
        {"table": "features", "row": {"name": "two", "display_name": "Two", "acronym": "AUTH"}},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(ProjectError, match='the row "two" of features'):
        take(root, file)

    assert [] == query(root, "SELECT name FROM features WHERE name = 'pay'")


def task_line(**values: object) -> str:
    row = {"id": 9, "feature": "auth", "discipline": "backend", "title": "x", **values}
    return json.dumps({"table": "tasks", "row": row})


GOOD = '{"table": "features", "row": {"name": "f", "display_name": "F", "acronym": "F"}}'
LEFT_OUT = [
    ("{", "invalid JSON"),
    ("[" * 100_000, "is nested too deeply"),
    ("[]", 'expected an object with "table" and "row"'),
    ('{"table": "tasks", "row": {"id": 1}, "more": 1}', "expected an object"),
    ('{"table": "sqlite_master", "row": {}}', 'rows of "sqlite_master" cannot be imported'),
    ('{"table": "ralphgen_ledger", "row": {"version": 1}}', "cannot be imported"),
    ('{"table": ["tasks"], "row": {}}', "cannot be imported"),
    ('{"table": "tasks", "row": []}', '"id" is missing'),
    ('{"table": "tasks", "row": {"id": "1"}}', '"id" is missing'),
    ('{"table": "tasks", "row": {"id": 1, "id": 2}}', "duplicate key"),
    (task_line(tags=["a"]), "lists are JSON strings"),
    (task_line(title=True), "expected a string"),
    (task_line(id=2**70), "a number beyond 64 bits"),
    (task_line(id="N").replace('"N"', "9" * 5000), ":2: a number beyond 64 bits"),
    (task_line(id=2**53), "invalid id 9007199254740992"),
    (task_line(title="\ud800"), "half of a surrogate pair"),
    (task_line().replace('"x"', "NaN"), "NaN is not valid JSON"),
    (task_line(feature="pay"), 'task 9 names the feature "pay", which does not exist'),
]
FAULTY = [
    (task_line(depends_on="soon"), '"depends_on" of task 9 is not a list of ids'),
    (task_line(depends_on="{}"), '"depends_on" of task 9 is not a list of ids'),
    (task_line(depends_on="[9]"), "tasks would wait for each other: 9 → 9"),
    (task_line(depends_on="[1, 8]"), "task 8 is missing, but task 9 needs it"),
]
TWICE = (task_line() + "\n" + task_line(title="y"), "task 9 occurs twice")
REFUSED = [
    ("<<<<<<< HEAD", "resolve the merge conflicts"),
    (task_line(titel="x"), 'this project has no column "tasks.titel"'),
]


def broken_file(folder: Path, text: str) -> Path:
    """Return a file with a good row and an invalid line."""
    file = folder / "rows.jsonl"
    file.write_bytes(f"{GOOD}\n{text}\n".encode("utf-8", "surrogatepass"))
    return file


def refuse(root: Path, file: Path, said: str, *, strict: bool) -> None:
    """Assert that an import is refused and changes nothing."""
    before = export_text(root)
    with pytest.raises(ProjectError) as caught:
        take(root, file, strict=strict)

    assert said in str(caught.value)
    assert before == export_text(root)
    assert not (root / BASE).exists()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_a_broken_file_changes_nothing(
    root: Path, text: str, said: str, *, strict: bool, tmp_path: Path
) -> None:
    refuse(root, broken_file(tmp_path, text), said, strict=strict)


@pytest.mark.parametrize(("text", "reason"), [*LEFT_OUT, TWICE])
def test_a_broken_record_is_left_out_and_named_or_refused(
    root: Path, text: str, reason: str, tmp_path: Path
) -> None:
    file, said = broken_file(tmp_path, text), list[str]()
    refuse(root, file, reason, strict=True)
    changes = take(root, file, say=said.append)
    named, counted = said[:2]

    first = ['add task 9 "x"'] if text == TWICE[0] else []
    assert sorted(['add the row "f" of features', *first]) == sorted(
        line.partition(":")[0] for line in lines(changes)
    )
    assert named.startswith("left out ")
    assert reason in named
    assert "warning: left out 1 unreadable record" == counted


@pytest.mark.parametrize(
    ("text", "warning"), [*FAULTY[:-1], (FAULTY[-1][0], "task 9 waits for missing task 8")]
)
def test_a_task_with_faulty_dependencies_is_imported_with_a_warning(
    root: Path, text: str, warning: str, tmp_path: Path
) -> None:
    said: list[str] = []
    take(root, broken_file(tmp_path, text), say=said.append)

    assert f"warning: {warning}" in said
    assert [("x",)] == query(root, "SELECT title FROM tasks WHERE id = 9")


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_bytes(b"\xff\xfe")])
def test_a_binary_file_is_refused(
    root: Path, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "it")
    with pytest.raises(ProjectError, match="it"):
        take(root, tmp_path / "it")
    with pytest.raises(ProjectError, match="gone"):
        take(root, tmp_path / "gone")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = {
    "title": TEXTS,
    "status": st.sampled_from(["pending", "done", "odd"]),
    "tags": TEXTS | st.none(),
    "estimated_turns": st.integers(-(2**63), 2**63 - 1) | st.none(),
    "note": TEXTS
    | st.none()
    | st.binary(max_size=8)
    | st.floats(allow_nan=False)
    | st.integers(-(2**63), 2**63 - 1),
}
COLUMN = "ALTER TABLE tasks ADD COLUMN note"


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without rows, whose tables take values of any type, as older ones do."""
    folder = tmp_path_factory.mktemp("loose")
    schema = INIT_SCHEMA.read_text(encoding="utf-8").replace(") STRICT;", ");")
    create_database(folder, schema, COLUMN)
    return folder


@settings(max_examples=examples(60))
@given(rows=st.lists(st.fixed_dictionaries(VALUES), max_size=4))
def test_an_imported_export_is_exported_with_the_same_bytes(
    loose: Path, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    for name in ("a", "b"):
        shutil.copytree(loose, folder / name)
    fill(folder / "a", rows)
    text = export_text(folder / "a")
    file = exported(folder / "a")
    take(folder / "b", file)

    assert text == export_text(folder / "b")
    assert () == take(folder / "b", file)


def fill(root: Path, rows: list[dict[str, Any]]) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        connection.executescript(ROWS.partition("INSERT INTO tasks")[0])
        for number, row in enumerate(rows, start=1):
            names = ", ".join(row)
            sql = (
                f"INSERT INTO tasks (id, feature, discipline, {names}) VALUES (?, 'auth', 'backend'"
            )
            connection.execute(f"{sql}{', ?' * len(row)})", [number, *row.values()])
        connection.commit()


def test_three_people_who_began_with_one_file_lose_nothing(root: Path, tmp_path: Path) -> None:
    """A file is merged by its base, even if that is not the last one here."""
    base, second, third = (tmp_path / f"{name}.jsonl" for name in ("base", "b", "c"))
    export_file(root, base)
    others = [shutil.copytree(root, tmp_path / name) for name in ("b", "c")]
    query(others[0], "UPDATE tasks SET title = 'B' WHERE id = 1")
    query(others[1], "UPDATE tasks SET title = 'C' WHERE id = 2")
    export_file(others[0], second)
    export_file(others[1], third)
    take(root, second)
    said: list[str] = []
    take(root, third, say=said.append)
    assert f"warning: {third} is older than the last export or import" in "\n".join(said)
    export_file(root, base)
    for other in others:
        take(other, base)
    for one in (root, *others):
        assert [("B",), ("C",)] == query(one, "SELECT title FROM tasks WHERE id < 3 ORDER BY id")


def test_two_tasks_under_one_number_are_a_conflict(root: Path, tmp_path: Path) -> None:
    """The number may also come from an import; a change of the same task is not a conflict."""
    base = tmp_path / "base.jsonl"
    export_file(root, base)
    others = [shutil.copytree(root, tmp_path / name) for name in ("b", "c")]
    made = "INSERT INTO tasks (id, feature, discipline, title, description) "
    for other in others:
        query(other, f"{made}VALUES (9, 'auth', 'backend', '{other.name}', 'of {other.name}')")
        export_file(other, tmp_path / f"{other.name}.jsonl")
    take(root, tmp_path / "b.jsonl")
    with pytest.raises(ProjectError, match='task 9 is a different row: "b" here, "c" there'):
        take(root, tmp_path / "c.jsonl")

    query(others[0], "UPDATE tasks SET title = 'renamed' WHERE id = 9")
    export_file(others[0], tmp_path / "again.jsonl")
    take(root, tmp_path / "again.jsonl")
    assert [("renamed",)] == query(root, "SELECT title FROM tasks WHERE id = 9")
