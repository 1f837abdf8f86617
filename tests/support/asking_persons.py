"""Questions to the user about tasks that wait for one another."""

from pathlib import Path
from typing import Any

from driving import query

REFUSED = (
    'task 1 cannot be deleted: task 2 "Show the form" depends on it; '
    'first remove 1 from its "depends_on"'
)
THIRD = """
INSERT INTO tasks (id, feature, discipline, title, depends_on)
    VALUES (3, 'auth', 'backend', 'Log out', '[2, 1]');
"""
AGREES = {"confirm": True}


def rows(root: Path) -> list[list[tuple[Any, ...]]]:
    return [query(root, f"SELECT * FROM {table}") for table in ("tasks", "task_comments")]
