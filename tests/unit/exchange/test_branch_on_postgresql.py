"""A clone with its rows in PostgreSQL and one with a file of SQLite share their tasks."""

from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from engines import on_engine
from git_merges import git
from postgresql import needs_postgresql
from row_branches import CONFIG, add_task, first_clone, merge_rows, needed, rows_of
from row_branches import trusted as accepted

pytestmark = [pytest.mark.slow, needs_postgresql]

CLAIM = (
    "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires) "
    "VALUES (3, 's', 1, '2026-01-01T00:00:00Z', '2999-01-01T00:00:00Z')"
)


@pytest.mark.thorough
def test_clashing_tasks_get_numbers_and_both_end_equal(tmp_path: Path) -> None:
    first = first_clone(tmp_path)
    merge_rows(first)
    with on_engine("postgresql", tmp_path / "b", ledger=True) as project:
        other = project.root
        settings = other / ".ralph/ralphgen.toml"
        settings.write_text(settings.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
        git(other, "init", "--quiet", "--initial-branch=main")
        git(other, "remote", "add", "origin", str(tmp_path / "origin"))
        accepted(other)
        merge_rows(other)
        add_task(first, "A one")
        merge_rows(first)
        project.query(
            "INSERT INTO tasks (id, feature, discipline, title, depends_on) VALUES "
            "(3, 'auth', 'backend', 'B one', '[]'), (4, 'auth', 'backend', 'B two', '[3]')"
        )
        project.query(
            "INSERT INTO task_comments (id, task_id, author, body) VALUES (1, 3, 'me', 'on B one')"
        )

        project.query("UPDATE tasks SET title = 'Mine' WHERE id = 1")
        query(first, "UPDATE tasks SET title = 'Theirs', hints = 'h' WHERE id = 1")
        merge_rows(first)
        project.query(CLAIM)
        for _ in range(2):
            done = ralphgen("sync", "--project", other)
            assert 1 == done.returncode
            assert "skipped: task 3 is in work" in done.stderr
            assert '"title" is "Mine" here and "Theirs" there' in done.stderr
            assert [("B one",)] == project.query("SELECT title FROM tasks WHERE id = 3")
        project.query("UPDATE ralphgen_claims SET session = NULL, expires = NULL")
        assert 0 == ralphgen("sync", "--ours", "--dry-run", "--project", other).returncode

        assert "task 3 is now 5" in ralphgen("sync", "--ours", "--project", other).stdout
        assert [(5,)] == project.query("SELECT task_id FROM task_comments WHERE body = 'on B one'")
        assert 0 == ralphgen("check", other, "--quiet").returncode
        text = rows_of(other)
    merge_rows(first)

    assert [5] == needed(first, "B two")
    assert [("Mine", "h")] == query(first, "SELECT title, hints FROM tasks WHERE id = 1")
    assert text == rows_of(first)
