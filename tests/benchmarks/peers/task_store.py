"""The data path of the Python peers: a hand-written server on the tasks table."""

import sqlite3
from collections.abc import Mapping
from typing import Any

PAGE = 50
LISTED = "id, title, status, priority, feature, discipline, depends_on"
PATIENCE = 30.0  # seconds that a write waits for others


class TaskStore:
    """One connection to a project's database."""

    def __init__(self, path: str) -> None:
        """Opens the database at `path`."""
        self._connection = sqlite3.connect(
            path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def call(self, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool; tools that are only listed return their arguments."""
        tools = {
            "list_tasks": self.list_tasks,
            "get_task": self.get_task,
            "create_task": self.create_task,
            "update_task": self.update_task,
        }
        return tools[tool](given) if tool in tools else dict(given)

    def list_tasks(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A page of tasks, filtered, and how many there are."""
        filters = {
            name: given[f"filter_{name}"]
            for name in ("status", "feature", "discipline")
            if f"filter_{name}" in given
        }
        where = " AND ".join(f"{name} = ?" for name in filters) or "1"
        values = [*filters.values()]
        limit = given.get("limit", PAGE)
        sql = f"SELECT {LISTED} FROM tasks WHERE {where} AND id > ? ORDER BY id LIMIT ?"
        rows = self._connection.execute(sql, [*values, int(given.get("cursor", 0)), limit])
        counted = f"SELECT COUNT(*) FROM tasks WHERE {where}"
        (total,) = self._connection.execute(counted, values).fetchone()
        return {"tasks": [dict(row) for row in rows], "total": total}

    def get_task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A task and its newest comments."""
        task = [given["id"]]
        row = self._connection.execute("SELECT * FROM tasks WHERE id = ?", task).fetchone()
        sql = "SELECT * FROM task_comments WHERE task_id = ? ORDER BY id DESC LIMIT 20"
        comments = [dict(comment) for comment in self._connection.execute(sql, task)]
        return {**dict(row), "comments": comments}

    def create_task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a task; answers its id."""
        names = ", ".join(given)
        marks = ", ".join("?" * len(given))
        sql = f"INSERT INTO tasks ({names}) VALUES ({marks})"
        self._connection.execute("BEGIN IMMEDIATE")
        added = self._connection.execute(sql, [*given.values()])
        self._connection.execute("COMMIT")
        return {"id": added.lastrowid}

    def update_task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Changes the given fields of a task."""
        changed = {name: value for name, value in given.items() if name != "id"}
        names = ", ".join(f"{name} = ?" for name in changed)
        sql = f"UPDATE tasks SET {names} WHERE id = ?"
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(sql, [*changed.values(), given["id"]])
        self._connection.execute("COMMIT")
        return {"id": given["id"], "changed": [*changed]}
