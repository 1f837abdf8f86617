"""The project's two state files: progress and learnings, one entry a call."""

from __future__ import annotations

import os

from ralphgen.runtime.values.paging import PAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace

LEARNINGS = "learnings.txt"
PROGRESS = "progress.txt"


def append_learning(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add an entry to `.ralph/learnings.txt` (SPEC-070, category 6)."""
    return _append(workspace, LEARNINGS, arguments)


def append_progress(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add an entry to `.ralph/progress.txt` (SPEC-070, category 6)."""
    return _append(workspace, PROGRESS, arguments)


def read_learnings(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the newest entries of `.ralph/learnings.txt` (SPEC-070, category 6)."""
    return _read(workspace, LEARNINGS, arguments)


def read_progress(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the newest entries of `.ralph/progress.txt` (SPEC-070, category 6)."""
    return _read(workspace, PROGRESS, arguments)


def _append(workspace: Workspace, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from ralphgen.runtime.files.entry_log import append_entry

    path = os.path.join(workspace.ralph_folder, name)
    session = workspace.session
    task = f"#{session.task}" if session.task is not None else ""
    tag = " ".join(word for word in (session.recipe, task, session.discipline) if word)
    return {"bytes_written": append_entry(path, tag, arguments["text"])}


def _read(workspace: Workspace, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from ralphgen.runtime.files.entry_log import read_entries

    path = os.path.join(workspace.ralph_folder, name)
    page = read_entries(path, arguments.get("limit", PAGE), arguments.get("cursor"))
    answer = {"text": page.text, "entries": page.entries, "total": page.total}
    return {**answer, "next_cursor": page.next_cursor} if page.next_cursor else answer
