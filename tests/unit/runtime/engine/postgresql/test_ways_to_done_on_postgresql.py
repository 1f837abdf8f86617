"""No write on a connection to PostgreSQL makes a task done, whatever moves the row."""

import psycopg
import pytest
from postgresql import database, needs_postgresql

from ralphgen.runtime.engine.postgresql.database import Database
from ralphgen.runtime.errors import ToolError

pytestmark = [pytest.mark.slow, needs_postgresql]
VARIABLE = "SHOP_DSN"
TASKS = "CREATE TABLE tasks (id int PRIMARY KEY, title text, status text DEFAULT 'pending')"
ROWS = "INSERT INTO tasks (id, title, status) VALUES (1, 'a', 'pending'), (3, 'c', 'done')"
CLOSE = "UPDATE public.tasks SET status = 'done' WHERE id = 1"
FREE = "EXECUTE 'CLOSE ralphgen_before'"
DECLARE = "DECLARE ralphgen_before NO SCROLL CURSOR FOR SELECT"
NOTES = "CREATE TABLE notes (task int); CREATE TABLE more (task int)"
NOTE = "INSERT INTO notes VALUES (1)"
PARTS = (
    "CREATE TABLE tasks (id int PRIMARY KEY, status text) PARTITION BY RANGE (id); "
    "CREATE TABLE upper_part PARTITION OF tasks FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id);"
    "CREATE TABLE lower_part PARTITION OF upper_part DEFAULT; "
    "INSERT INTO tasks VALUES (1, 'pending')"
)
CHILDREN = f"{TASKS}; CREATE TABLE child () INHERITS (tasks); CREATE TABLE low () INHERITS (child)"


def after_note(body: str, *, table: str = "notes", options: str = "", waits: bool = False) -> str:
    """A trigger that runs statements after each new note."""
    name = f"after_{table}"
    kind, when = ("CONSTRAINT ", "DEFERRABLE INITIALLY DEFERRED ") if waits else ("", "")
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {options} "
        f"AS $$ BEGIN {body}; RETURN NULL; END $$; CREATE {kind}TRIGGER {name} "
        f"AFTER INSERT ON {table} {when}FOR EACH ROW EXECUTE FUNCTION {name}()"
    )


def noted(body: str, **how: object) -> tuple[str, str]:
    return f"{TASKS}; {ROWS}; {NOTES}; {after_note(body, **how)}", NOTE  # type: ignore[arg-type]


def generated(kind: str) -> tuple[str, str]:
    column = f"status text GENERATED ALWAYS AS (CASE title WHEN 'x' THEN 'DONE' END) {kind}"
    table = f"CREATE TABLE tasks (id int, title text, {column})"
    return f"{table}; INSERT INTO tasks VALUES (1, 'a')", "UPDATE tasks SET title = 'x'"


# The definitions, and a statement.
WAYS = {
    "owner": noted(CLOSE, options="SECURITY DEFINER"),
    "part of a transaction": noted(f"BEGIN {CLOSE}; EXCEPTION WHEN others THEN NULL; END"),
    "replica": noted(f"SET LOCAL session_replication_role = replica; {CLOSE}"),
    "waiting": (
        noted("SET CONSTRAINTS ALL DEFERRED; INSERT INTO more VALUES (1)", waits=True)[0]
        + f"; {after_note(CLOSE, table='more', waits=True)}",
        NOTE,
    ),
    "later and later": (
        f"{TASKS}; {ROWS}; CREATE TABLE notes (task int); "
        + after_note(
            f"IF NEW.task = 9 THEN {CLOSE}; ELSE SET CONSTRAINTS ALL DEFERRED; "
            "INSERT INTO notes VALUES (NEW.task + 1); END IF",
            waits=True,
        ),
        NOTE,
    ),
    "replaced cursor": noted(f"{CLOSE}; {FREE}; EXECUTE $x${DECLARE} 1, 'done', '1(0,1)'$x$"),
    "same cursor": noted(
        f"{CLOSE}; {FREE}; EXECUTE '{DECLARE} id, status, concat(tableoid, ctid) FROM public.tasks'"
    ),
    "closed cursor": noted(f"{CLOSE}; {FREE}"),
    "read cursor": noted(f"{CLOSE}; EXECUTE 'MOVE FORWARD ALL IN ralphgen_before'"),
    "deleted and added again": noted(
        "DELETE FROM tasks WHERE id = 3; INSERT INTO tasks VALUES (3, 'd', 'done')"
    ),
    "moved over a deleted one": noted(
        "INSERT INTO tasks VALUES (4, 'd', 'done'); DELETE FROM tasks WHERE id = 3; "
        "UPDATE tasks SET id = 3 WHERE id = 4"
    ),
    "policy": noted(
        f"{CLOSE}; {FREE}; ALTER TABLE tasks ENABLE ROW LEVEL SECURITY; "
        "ALTER TABLE tasks FORCE ROW LEVEL SECURITY; CREATE POLICY p ON tasks USING (id > 1)"
    ),
    "replaced by a view": noted(
        f"{CLOSE}; {FREE}; ALTER TABLE tasks RENAME TO other; "
        "CREATE VIEW tasks AS "
        "SELECT id, title, 'pending' AS status, ctid, tableoid, xmin FROM other"
    ),
    "cast": (
        (
            "CREATE TYPE state AS ENUM ('pending', 'done'); "
            "CREATE FUNCTION lies(state) RETURNS text LANGUAGE sql AS $$ SELECT 'pending' $$; "
            "CREATE CAST (state AS text) WITH FUNCTION lies(state); "
            "CREATE TABLE tasks (id int PRIMARY KEY, status state); "
            "INSERT INTO tasks VALUES (1, 'pending')"
        ),
        "UPDATE tasks SET status = 'done'",
    ),
    "search path": noted(
        f"{CLOSE}; CREATE SCHEMA other; CREATE TABLE other.tasks (id int, status text); "
        "SET LOCAL search_path = other, public"
    ),
    "temporary table": noted(
        f"{CLOSE}; CREATE TEMP TABLE tasks (id int, status text); "
        "SET LOCAL search_path = pg_temp, public"
    ),
    "rule": (
        f"{TASKS}; {ROWS}; {NOTES}; CREATE RULE r AS ON INSERT TO notes DO ALSO {CLOSE}",
        NOTE,
    ),
    "view": (
        f"{TASKS}; {ROWS}; CREATE VIEW v AS SELECT * FROM tasks",
        "UPDATE v SET status = 'done'",
    ),
    "merge": (
        f"{TASKS}; {ROWS}",
        (
            "MERGE INTO tasks USING (VALUES (1)) AS v (id) ON tasks.id = v.id "
            "WHEN MATCHED THEN UPDATE SET status = 'done'"
        ),
    ),
    "stored": generated("STORED"),
    "key": (
        (
            "CREATE TABLE states (name text PRIMARY KEY); INSERT INTO states VALUES ('pending'); "
            "CREATE TABLE tasks (id int, status text REFERENCES states ON UPDATE CASCADE); "
            "INSERT INTO tasks VALUES (1, 'pending')"
        ),
        "UPDATE states SET name = 'done'",
    ),
    "blanks": (
        f"{TASKS.replace('status text', 'status char(10)')}; {ROWS}",
        "UPDATE tasks SET status = 'Done' WHERE id = 1",
    ),
    "part": (PARTS, "UPDATE upper_part SET status = 'done'"),
    "lower part": (PARTS, "UPDATE lower_part SET status = 'done'"),
    "moved part": (
        (
            "CREATE TABLE tasks (id int, status text) PARTITION BY LIST (status); "
            "CREATE TABLE pending PARTITION OF tasks FOR VALUES IN ('pending'); "
            "CREATE TABLE others PARTITION OF tasks DEFAULT; "
            "INSERT INTO tasks VALUES (1, 'pending')"
        ),
        "UPDATE tasks SET status = 'done'",
    ),
    "new part": (
        f"{PARTS}; {NOTES}; CREATE TABLE part (id int NOT NULL, status text); "
        "INSERT INTO part VALUES (10, 'done'); "
        + after_note("ALTER TABLE tasks ATTACH PARTITION part FOR VALUES FROM (9) TO (19)"),
        NOTE,
    ),
    "child": (CHILDREN, "INSERT INTO low VALUES (9, 'a', 'done')"),
    "parent": (
        (
            "CREATE TABLE every (id int, status text); CREATE TABLE tasks () INHERITS (every); "
            "INSERT INTO tasks VALUES (1, 'pending')"
        ),
        "UPDATE every SET status = 'done'",
    ),
}


REFUSALS = {
    "closed cursor": "closed or replaced",
    "later and later": "still waited for the commit",
    "policy": "altered the table",
    "replaced cursor": "closed or replaced",
    "same cursor": "closed or replaced",
    "replaced by a view": "altered the table",
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_makes_a_task_done(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    definitions, statement = WAYS[way]
    with database() as dsn, psycopg.connect(dsn, autocommit=True) as other:
        other.execute(definitions.encode())
        before = other.execute("SELECT * FROM tasks ORDER BY 1").fetchall()
        monkeypatch.setenv(VARIABLE, dsn)
        rows = Database(f"{VARIABLE}/public")
        with pytest.raises(ToolError, match=REFUSALS.get(way, "done by this write")):
            rows.writing(lambda: rows.change(statement))
        rows.close()

        assert before == other.execute("SELECT * FROM tasks ORDER BY 1").fetchall()


EDIT = "UPDATE tasks SET title = title || 'b' WHERE id = 3"
# The definitions, and the statements of a transaction that closes nothing.
HARMLESS = {
    "edit": (f"{TASKS}; {ROWS}", EDIT),
    "two edits": (f"{TASKS}; {ROWS}", f"{EDIT}; {EDIT}"),
    "indexed edit": (f"{TASKS}; {ROWS}; CREATE INDEX i ON tasks (title)", f"{EDIT}; {EDIT}"),
    "part": (PARTS.replace("'pending'", "'done'"), "UPDATE tasks SET status = status"),
    "child": (
        f"{CHILDREN}; INSERT INTO low VALUES (3, 'c', 'done')",
        f"{EDIT}; DELETE FROM tasks WHERE id = 9",
    ),
    "deletion": (f"{TASKS}; {ROWS}", "DELETE FROM tasks WHERE id = 3"),
    "edit and deletion": (
        f"{TASKS}; {ROWS}; INSERT INTO tasks VALUES (4, 'd', 'done')",
        f"{EDIT}; DELETE FROM tasks WHERE id = 4; INSERT INTO tasks VALUES (4, 'd')",
    ),
    "waiting": (
        (
            f"{TASKS}; {ROWS}; CREATE TABLE notes (task int); "
            + after_note(
                f"IF NEW.task = 3 THEN {EDIT}; ELSE SET CONSTRAINTS ALL DEFERRED; "
                "INSERT INTO notes VALUES (NEW.task + 1); END IF",
                waits=True,
            )
        ),
        NOTE,
    ),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_a_write_that_closes_nothing_is_committed(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    definitions, statements = HARMLESS[way]
    with database() as dsn, psycopg.connect(dsn, autocommit=True) as other:
        other.execute(definitions.encode())
        monkeypatch.setenv(VARIABLE, dsn)
        rows = Database(f"{VARIABLE}/public")
        rows.writing(lambda: [*map(rows.change, statements.split("; "))])
        rows.writing(lambda: rows.change(statements.split("; ")[0]))
        rows.close()


def test_a_task_that_is_allowed_is_committed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as dsn, psycopg.connect(dsn, autocommit=True) as other:
        other.execute(f"{TASKS}; {ROWS}".encode())
        monkeypatch.setenv(VARIABLE, dsn)
        rows = Database(f"{VARIABLE}/public")
        again = "DELETE FROM tasks WHERE id = 3", "INSERT INTO tasks VALUES (3, 'd', 'done')"
        closed = rows.writing(
            lambda: (
                rows.closing(lambda _: True, lambda: [*map(rows.change, (CLOSE, *again))]),
                rows.closed_tasks(),
            )
        )
        rows.close()

    assert [(1, "done"), (3, "done")] == closed[1]
