"""No write on a connection to SQLite makes a task done, whatever moves the row."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError

TASKS = "CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, status TEXT DEFAULT 'pending')"
ROWS = "INSERT INTO tasks (id, title, status) VALUES (1, 'a', 'pending'), (3, 'c', 'done')"
CLOSE = "UPDATE tasks SET status = 'done' WHERE id = 1"
NOTES = "CREATE TABLE notes (task INTEGER); CREATE TABLE more (task INTEGER)"
NOTE = "INSERT INTO notes VALUES (1)"
IGNORES = "BEGIN SELECT RAISE(IGNORE); END"
GENERATED = (
    "CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, "
    "status TEXT AS (CASE title WHEN 'x' THEN 'DONE' ELSE title END) {}); "
    "INSERT INTO tasks VALUES (1, 'a')"
)
# The definitions, and the statements of one transaction.
WAYS = {
    "ignored update": (f"{TASKS}; {ROWS}; CREATE TRIGGER t AFTER UPDATE ON tasks {IGNORES}", CLOSE),
    "ignored insert": (
        f"{TASKS}; CREATE TRIGGER t AFTER INSERT ON tasks {IGNORES}",
        "INSERT INTO tasks VALUES (1, 'a', 'done')",
    ),
    "instead": (
        (
            f"{TASKS}; {ROWS}; CREATE VIEW v AS SELECT * FROM tasks; "
            f"CREATE TRIGGER t INSTEAD OF UPDATE ON v BEGIN {CLOSE}; END"
        ),
        "UPDATE v SET title = 'b'",
    ),
    "chain": (
        (
            f"{TASKS}; {ROWS}; {NOTES}; "
            "CREATE TRIGGER t AFTER INSERT ON notes BEGIN INSERT INTO more VALUES (new.task); END; "
            f"CREATE TRIGGER u BEFORE INSERT ON more BEGIN {CLOSE}; END"
        ),
        NOTE,
    ),
    "same table": (
        f"{TASKS}; {ROWS}; CREATE TRIGGER t AFTER UPDATE OF title ON tasks BEGIN {CLOSE}; END",
        "UPDATE tasks SET title = 'b' WHERE id = 1",
    ),
    "deletion": (
        f"{TASKS}; {ROWS}; CREATE TRIGGER t AFTER DELETE ON tasks BEGIN {CLOSE}; END",
        "DELETE FROM tasks WHERE id = 3",
    ),
    "own name": (
        (
            f"{TASKS}; {ROWS}; {NOTES}; "
            "CREATE TRIGGER ralphgen_closing_UPDATE AFTER UPDATE ON tasks BEGIN SELECT 1; END; "
            f"CREATE TRIGGER ralphgen_closing_INSERT AFTER INSERT ON notes BEGIN {CLOSE}; END"
        ),
        NOTE,
    ),
    "unique": (
        f"{TASKS}; {ROWS}; CREATE UNIQUE INDEX u ON tasks (title)",
        "REPLACE INTO tasks VALUES (7, 'a', 'done')",
    ),
    "without rowid": (f"{TASKS} WITHOUT ROWID; {ROWS}", CLOSE),
    "virtual": (GENERATED.format("VIRTUAL"), "UPDATE tasks SET title = 'x'"),
    "stored": (GENERATED.format("STORED"), "UPDATE tasks SET title = 'x'"),
    "default": (f"{TASKS.replace('pending', 'done')}", "INSERT INTO tasks (title) VALUES ('b')"),
    "from": (
        f"{TASKS}; {ROWS}",
        "UPDATE tasks SET status = o.status FROM tasks o WHERE o.id = 3 AND tasks.id = 1",
    ),
    "number": (f"{TASKS}; {ROWS}", "DELETE FROM tasks WHERE id = 1; UPDATE tasks SET rowid = 1"),
    "blob": (f"{TASKS}; {ROWS}", CLOSE.replace("'done'", "X'646f6e65'")),
    "other type": (f"{TASKS.replace('status TEXT', 'status INTEGER')}; {ROWS}", CLOSE),
    "other name": (
        f"{TASKS}; {ROWS}",
        (
            "ALTER TABLE tasks RENAME TO t; UPDATE t SET status = 'done'; "
            "ALTER TABLE t RENAME TO tasks"
        ),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_makes_a_task_done(tmp_path: Path, way: str) -> None:
    definitions, statements = WAYS[way]
    file = tmp_path / "tasks.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(definitions)
        before = connection.execute("SELECT * FROM tasks").fetchall()
    database = Database(str(file))
    with pytest.raises(ToolError, match="done by this write"):
        database.writing(lambda: [*map(database.change, statements.split("; "))])
    database.close()

    with closing(sqlite3.connect(file)) as connection:
        assert before == connection.execute("SELECT * FROM tasks").fetchall()
