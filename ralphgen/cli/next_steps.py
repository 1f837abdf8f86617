"""The commands that `init` ends with: they work as they are printed."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralphgen.calls.context import read_policy
from ralphgen.errors import RalphgenError
from ralphgen.init.scaffold import CONTEXT
from ralphgen.project.rows import open_rows
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.session import DEFAULT_RECIPE

WIDTH = 76  # of a line of a command, which is indented, and may go on behind a backslash
TALKING = "yap"  # the recipe for the user's own client
CREATING = "create_task"  # the tool of a project that serves tasks


def next_steps(root: Path, named: Path) -> list[str]:
    """Return what a person types next, line by line, for a project that was called `named`."""
    place = [] if named == Path() else [str(named)]
    beside = ["--project", *place] if place else []
    features, disciplines = _names(root)
    has_tasks = any(CREATING in tools for tools in _tools(root).values())
    if has_tasks and disciplines and not features:
        first = ["Say hello", "--feature", "start", "--discipline", disciplines[0]]
        words = [
            ["feature", "add", "start", *beside],
            ["task", "add", *first, "--status", "pending", *beside],
            ["task", "next", *beside],
        ]
    elif has_tasks:
        words = [["task", "list", *beside], ["tools", *beside], ["doctor", *place]]
    else:
        words = [["tools", *beside], ["connect", "claude", *beside], ["doctor", *place]]
    return [line for command in words for line in _lines(["ralphgen", *command])]


def widening(root: Path, named: Path) -> str:
    """Return two lines: that the user's own client only reads, and the command that widens it.

    Empty if it has more already, or if the server cannot be read.
    """
    try:
        recipe = json.loads((root / CONTEXT).read_bytes())["recipe"]
    except FileNotFoundError:
        recipe = DEFAULT_RECIPE
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    if recipe != DEFAULT_RECIPE:
        return ""
    try:
        policy = read_policy(root, trust_edited=True)
    except RalphgenError:
        return ""
    gained = (policy.allowed(TALKING, kit) - policy.allowed(recipe, kit) for kit in policy.kits)
    wider = TALKING if any(gained) else FULL
    place = [] if named == Path() else ["--project", str(named)]
    command = shlex.join(["ralphgen", "session", "create", wider, "--default", *place])
    return f"your own client only reads; to let it change rows:\n  {command}"


def _lines(command: Sequence[str]) -> list[str]:
    """Return a command as a shell reads it, each option with its value on one line."""
    parts: list[list[str]] = [[]]
    for word in command:
        parts += [[]] if word.startswith("--") else []
        parts[-1].append(word)
    first, *more = map(shlex.join, parts)
    lines = [first]
    for part in more:
        if len(f"{lines[-1]} {part} \\") > WIDTH:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}"
    return lines


def _tools(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the tools that the project has, by kit."""
    return read_policy(root, trust_edited=True).every_tool


def _names(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the features and the disciplines; none where the database cannot be read."""
    try:
        with open_rows(root) as rows:
            return rows.names("features"), rows.names("disciplines")
    except RalphgenError:
        return (), ()
