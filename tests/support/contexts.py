"""Contexts that a session could have written, and some that none has."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driving import on_context, project_facts

GOOD: dict[str, Any] = {
    "version": 1,
    "session_id": "test",
    "recipe": "yap",
    "enabled_tools": {"ralph": ["list_tasks", "create_task"]},
}
WHOLE: dict[str, Any] = {
    **GOOD,
    "base": "yap",
    "discipline": None,
    "target_discipline": None,
    "feature": None,
    "task_id": None,
    "disabled_tools": {},
    "narrowed_arguments": {},
    "bindings": {},
}
GONE = object()  # in a change, removes the key


def context_arguments(root: Path, facts: object) -> tuple[str, ...]:
    """The arguments for a context of that text, or of a whole one with those changes."""
    path = root / "given.json"
    text = facts if isinstance(facts, str) else json.dumps(changed(root, facts))
    path.write_text(text, encoding="utf-8")
    return on_context(path)


def changed(root: Path, facts: Any) -> dict[str, Any]:
    whole = {**WHOLE, "project": project_facts(root), **facts}
    return {key: value for key, value in whole.items() if value is not GONE}


@contextmanager
def beside(root: Path, facts: object) -> Iterator[None]:
    """The default context, which is read if none is named."""
    path = root / ".ralph" / "mcp" / "context.json"
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts), encoding="utf-8")
    try:
        yield
    finally:
        path.unlink()
