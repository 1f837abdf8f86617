"""What `init` lays down in a folder, never over anything that is there."""

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from ralphgen.errors import ProjectError
from ralphgen.inspection.config import FILE
from ralphgen.inspection.project import DATABASE
from ralphgen.kits import KITS
from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.stacks import Stack

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
    if path.exists() or path.is_symlink():
        return False
    unfinished = path.with_name("ralph.db.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        _fill(unfinished, title, stack)
        unfinished.rename(path)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise ProjectError(
            f'the database "{path}" cannot be created: {error}',
            "give the folder write permission and free disk space, and run it again",
        ) from error
    return True


def switch_on(root: Path, kits: Iterable[str]) -> None:
    """Write the config where there is none, and add the kits to its list; comments are kept.

    Raises `ProjectError` where the config is not TOML or cannot be written.
    """
    path = root / FILE
    wanted = [kit.key for kit in KITS if kit.key in set(kits)]
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else CONFIG_TEXT
        document = tomlkit.parse(text)
        listed = document.setdefault("kits", ["ralph"])
        for kit in wanted:
            if kit not in listed:
                listed.append(kit)
        changed = tomlkit.dumps(document)
        if not path.exists() or (changed != text and wanted):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(changed, encoding="utf-8", newline="\n")
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise ProjectError(f"{FILE} cannot be used: {error}", "mend the file by hand") from error


def write_default_context(root: Path, plan: ServerPlan) -> bool:
    """Write the context for a person's own client, where there is none; whether it was written.

    It stands for the profile `manual`: every tool that a kit can have.
    """
    path = root / CONTEXT
    if path.exists() or path.is_symlink():
        return False
    context = {
        "version": 1,
        "session_id": "manual",
        "recipe": "manual",
        "base": "manual",
        "enabled_tools": {kit.key: _every_tool(kit) for kit in plan.kits},
        "disabled_tools": {kit.key: [] for kit in plan.kits},
    }
    try:
        path.write_text(json.dumps(context, indent=2) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise ProjectError(f'"{path}" cannot be written: {error.strerror}') from error
    return True


def _every_tool(kit: KitPlan) -> list[str]:
    """The tools of a kit, with those that a later schema may have a place for."""
    return [*(tool.name for tool in kit.tools), *kit.absent]


def _fill(path: Path, title: str, stack: Stack) -> None:
    schema = resources.files("ralphgen").joinpath("schema.sql").read_text(encoding="utf-8")
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
