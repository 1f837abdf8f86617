"""Specs on disk, calls that must not fail, and the files that a call may change."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from command_line import texts
from driving import Driver
from specum_projects import STATE

POINTER = "specs/.current-spec"
DATABASE = ".ralph/db/ralph.db"
TASKS = """\
# Tasks

## Phase 1: Make It Work

- [ ] 1.1 [P] Write the parser
  - **Do**: parse one line
  - **Files**: `parser.py`
  - **Done when**: a line is parsed
  - **Verify**: `pytest -q`
  - **Commit**: `feat: parse`
- [ ] 1.2 [P] Write the writer
  - **Do**: write one line
- [ ] 1.3 [VERIFY] Check both
  - **Verify**: `make check`
"""
COUNTED = {"taskIndex": 0, "totalTasks": 0, "taskIteration": 1, "globalIteration": 1}


def lay_spec(
    root: Path,
    name: str,
    *,
    state: Mapping[str, Any] | str | None = None,
    tasks: str | bytes | None = None,
    current: bool = True,
) -> Path:
    """The folder of a spec: its state as an object or as the file's text, and its tasks."""
    folder = root / "specs" / name
    folder.mkdir(parents=True, exist_ok=True)
    if state is not None:
        text = state if isinstance(state, str) else json.dumps(state)
        (folder / STATE).write_text(text, encoding="utf-8")
    if tasks is not None:
        (folder / "tasks.md").write_bytes(tasks if isinstance(tasks, bytes) else tasks.encode())
    if current:
        (root / POINTER).write_text(f"{name}\n", encoding="utf-8")
    return folder


def state_of(root: Path, name: str) -> dict[str, Any]:
    """Return the content of a spec's state file."""
    found: dict[str, Any] = json.loads((root / "specs" / name / STATE).read_text(encoding="utf-8"))
    return found


def ticked(folder: Path, task: str) -> None:
    """Tick a task off, as an agent does after finishing it."""
    path = folder / "tasks.md"
    text = path.read_text(encoding="utf-8")
    assert f"- [ ] {task} " in text
    path.write_text(text.replace(f"- [ ] {task} ", f"- [x] {task} "), encoding="utf-8")


def ok(driver: Driver, tool: str, **arguments: Any) -> str:
    """The text of an answer that must be no failure."""
    failed, text = driver.ask(tool, arguments)
    assert not failed, text
    return text


def everything(root: Path) -> dict[str, bytes]:
    """Return every file of a project, without the interpreter's caches."""
    return {path: data for path, data in texts(root).items() if "__pycache__" not in path}


@contextmanager
def changing(root: Path, *expected: str) -> Iterator[None]:
    """Assert that the block creates, changes or deletes exactly these files."""
    before = everything(root)
    yield
    after = everything(root)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {*expected} == changed


def rows_of(root: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every table of a project's database, by table."""
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        return {
            table: connection.execute(f'SELECT * FROM "{table}"').fetchall()
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        }


def restored(root: Path, before: Mapping[str, list[tuple[object, ...]]]) -> None:
    """Restore the rows of a project's database, by table, if they differ."""
    now = rows_of(root)
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        for table, rows in before.items():
            if rows == now[table]:
                continue
            connection.execute(f'DELETE FROM "{table}"')
            for row in rows:
                places = ", ".join("?" * len(row))
                connection.execute(f'INSERT INTO "{table}" VALUES ({places})', row)
        connection.commit()
