"""Tasks of a project: a new one, and its stored values."""

from pathlib import Path
from typing import Any

from driving import Driver, query

BASE = {"feature": "auth", "discipline": "backend"}


def create(server: Driver, title: str, **fields: Any) -> int:
    task: int = server.call("create_task", **{**BASE, "title": title, **fields})["id"]
    return task


def stored(project: Path, task: int, *columns: str) -> tuple[Any, ...]:
    (row,) = query(project, f"SELECT {', '.join(columns)} FROM tasks WHERE id = ?", task)
    return row


def today(project: Path) -> str:
    ((date,),) = query(project, "SELECT date('now')")
    return str(date)
