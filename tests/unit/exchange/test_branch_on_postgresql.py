"""A clone with its rows in PostgreSQL and one with a file of SQLite share their tasks."""

from pathlib import Path

import pytest
from command_line import ralphgen
from engines import on_engine
from git_merges import git
from postgresql import needs_postgresql
from row_branches import CONFIG, add_task, first_clone, merge_rows, needed, rows_of
from row_branches import trusted as accepted

pytestmark = [pytest.mark.slow, needs_postgresql]


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

        assert "task 3 is now 5" in ralphgen("sync", "--project", other).stdout
        assert [(5,)] == project.query("SELECT task_id FROM task_comments WHERE body = 'on B one'")
        assert 0 == ralphgen("check", other, "--quiet").returncode
        text = rows_of(other)
    merge_rows(first)

    assert [5] == needed(first, "B two")
    assert text == rows_of(first)
