"""What `init` writes into a folder, never over anything that is there."""

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.init.stacks import Stack
from ralphgen.kits.registry import KITS
from ralphgen.output.files import WRITE_HINT, put
from ralphgen.output.write import exclusive
from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.project.config import FILE, read_config
from ralphgen.project.inspect import DATABASE, settings_models
from ralphgen.project.root import FOLDER
from ralphgen.project.toml import read_text
from ralphgen.project.toml_edit import edited

CONTEXT = ".ralph/mcp/context.json"
CONFIG_TEXT = """\
# Settings of ralphgen; every key is optional. Run "ralphgen regen" after a change.
kits = ["ralph"]
"""


def create_database(root: Path, title: str, stack: Stack) -> bool:
    """Create the project's database with the stack's disciplines; whether there was none.

    The file appears whole or not at all. Raises `ProjectError` where it cannot be written.
    """
    path = root / DATABASE
    if _is_there(path):
        return False
    unfinished = path.with_name("ralph.db.new")
    try:
        with exclusive(root / FOLDER):
            if _is_there(path):
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            _discard(unfinished)
            _fill(unfinished, title, stack)
            unfinished.rename(path)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            _discard(unfinished)
        reason = error.strerror if isinstance(error, OSError) else None
        raise ProjectError(
            f'the database "{path}" cannot be created: {(reason or str(error)).lower()}', WRITE_HINT
        ) from error
    return True


def switch_on(root: Path, kits: Iterable[str]) -> None:
    """Write the config where there is none, and add the kits to its list; comments are kept.

    Raises `ProjectError` where the config is not valid or cannot be written.
    """
    path = root / FILE
    there = _is_there(path)
    wanted = [kit.key for kit in KITS if kit.key in set(kits)]
    listed = _kits_on(root) if there else ["ralph"]
    if there and set(wanted) <= set(listed):
        return
    text = read_text(path, FILE) if there else CONFIG_TEXT
    put(path, edited(text, [(("kits",), list(dict.fromkeys([*listed, *wanted])))]))


def write_setup_files(root: Path, kits: Iterable[str]) -> list[str]:
    """Write the files that the kits start with, where there are none; returns what was written.

    Raises `ProjectError` where one cannot be written.
    """
    wanted = set(kits)
    files = {path: text for kit in KITS if kit.key in wanted for path, text in kit.setup.items()}
    written: list[str] = []
    for relative, text in files.items():
        path = root / relative
        if not _is_there(path):
            put(path, text)
            written.append(relative)
    return written


def kits_without_tools(root: Path, plan: ServerPlan) -> list[str]:
    """Return the kits of which the context beside the server, kept as it was, enables no tool."""
    try:
        enabled = json.loads(_text_of(root / CONTEXT))["enabled_tools"]
        return [kit.key for kit in plan.kits if not enabled.get(kit.key)]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []  # the server itself refuses a context that cannot be read


def write_default_context(root: Path, plan: ServerPlan) -> bool:
    """Write the context for a person's own client; whether it was written.

    It stands for the profile `manual`: every tool that a kit can have. One that is there is kept,
    unless it is what would have been written before further kits were switched on.
    """
    path = root / CONTEXT
    text = _default_context(plan.kits)
    if _is_there(path):
        named = [kit for kit in plan.kits if kit.key in _kits_of_context(path)]
        if text == _default_context(named) or _text_of(path) != _default_context(named):
            return False
    put(path, text)
    return True


def _default_context(kits: Sequence[KitPlan]) -> str:
    context = {
        "version": 1,
        "session_id": "manual",
        "recipe": "manual",
        "base": "manual",
        "enabled_tools": {kit.key: _every_tool(kit) for kit in kits},
        "disabled_tools": {kit.key: [] for kit in kits},
    }
    return json.dumps(context, indent=2) + "\n"


def _kits_of_context(path: Path) -> list[str]:
    """Return the kits that a context enables tools of; none where it cannot be read."""
    try:
        return [*json.loads(_text_of(path))["enabled_tools"]]
    except (ValueError, LookupError, TypeError):
        return []


def _text_of(path: Path) -> str:
    """Return the text of a file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _kits_on(root: Path) -> list[str]:
    """Return the kits of a config that is there; raises `ProjectError` where it is not valid."""
    return read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values.kits


def _discard(unfinished: Path) -> None:
    """Remove a database that was never finished, with what SQLite left beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    """Return whether anything is there, a dangling link or what may not be seen included."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _every_tool(kit: KitPlan) -> list[str]:
    """Return the tools of a kit, with those that a later schema may have a place for."""
    return [*(tool.name for tool in kit.tools), *kit.absent]


def _fill(path: Path, title: str, stack: Stack) -> None:
    schema = resources.files("ralphgen.init").joinpath("schema.sql").read_text(encoding="utf-8")
    today = time.strftime("%Y-%m-%d", time.gmtime())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(schema)
        connection.execute(
            "INSERT INTO metadata (id, project_title, project_created) VALUES (1, ?, ?)",
            (title, today),
        )
        connection.executemany(
            "INSERT INTO disciplines (name, display_name, acronym, icon, color, description, "
            "system_prompt, skills, conventions, stack_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    discipline.name,
                    discipline.display_name,
                    discipline.acronym,
                    discipline.icon,
                    discipline.color,
                    discipline.description,
                    discipline.system_prompt,
                    json.dumps(discipline.skills, ensure_ascii=False, separators=(",", ":")),
                    discipline.conventions,
                    stack.id,
                )
                for discipline in stack.disciplines
            ],
        )
        connection.commit()
