"""A project's own tools read and write PostgreSQL with the SQL that they would give to SQLite."""

from pathlib import Path

import pytest
from driving import connected, made_here, quiet
from engines import VARIABLE, on_both
from postgresql import needs_postgresql

from ralphgen.generate.workflows import regenerate

pytestmark = [pytest.mark.slow, needs_postgresql]

TOOLS = '''
from typing import Any

from ralphgen.tools import Project


def both(project: Project, title: str) -> dict[str, Any]:
    """Write and read."""
    sql = "UPDATE tasks SET title = :title WHERE id = :id RETURNING id, title"
    done = project.write(sql, title=title, id=1)
    found = "SELECT id FROM tasks WHERE title = :title AND '::x' <> ':y'"
    return {**done, "read": project.rows(found, title=title)}


def bad(project: Project) -> Any:
    """Write while reading."""
    return project.rows("WITH x AS (DELETE FROM tasks RETURNING id) SELECT * FROM x")


def count(project: Project, sql: str) -> int:
    """Count the rows of a statement."""
    return len(project.rows(sql))
'''
REFUSED = (
    ("SELECT repeat('x', 1000000) FROM generate_series(1, 10000000)", "more than 20 MB"),
    ("SELECT generate_series(1, 10000000)", "there are more than 10,000 rows"),
    ("SELECT nextval('nothing')", "refuses this"),
    ("SELECT 1 FROM nowhere", "nowhere"),
    ("TABLE tasks", "project.rows takes one statement"),
)
COUNTED = (
    ("SELECT generate_series(1, 10000);", 10_000),
    ("VALUES (1), (2)", 2),
    ("WITH RECURSIVE a AS (SELECT 1 AS b) SELECT b, b FROM a", 1),
    ("EXPLAIN SELECT 1", 1),
    ("SELECT id FROM tasks WHERE id = -1", 0),
)


def test_values_go_both_ways_and_reading_writes_nothing(tmp_path: Path) -> None:
    with on_both(tmp_path) as (_, root, dsn):
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        made_here(root)
        with connected(root, env={VARIABLE: dsn}) as server:
            written = {"changed": 1, "rows": [{"id": 1, "title": "It's"}], "read": [{"id": 1}]}
            assert written == server.call("both", title="It's")
            assert "data-modifying statements" in server.refusal("bad")
            for sql, said in REFUSED:
                assert said in server.refusal("count", sql=sql)
            for sql, number in COUNTED:
                assert {"result": number} == server.call("count", sql=sql)
            assert written | {"changed": 1} == server.call("both", title="It's")
