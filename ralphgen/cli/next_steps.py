"""The commands that `init` and `connect` end with: they work as they are printed."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralphgen.agents.calls import read_policy
from ralphgen.emit.scaffold import CONTEXT
from ralphgen.emit.trust import untrusted
from ralphgen.errors import RalphgenError
from ralphgen.kits.tables import command_to_add
from ralphgen.project.approvals import read_record
from ralphgen.project.schema import open_rows
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.session import DEFAULT_RECIPE
from ralphgen.sessions.create import project_items
from ralphgen.terminal.console import as_typed

WIDTH = 76  # of a line of a command, which is indented, and may continue after a backslash
COMMENT = 43  # column of the comment behind a command
TALKING = "yap"  # the recipe for the user's own client
CREATING = "create_task"  # the tool of a project that serves tasks


def next_steps(root: Path, named: Path) -> list[str]:
    """Return the commands that a user types next, line by line.

    `named` is the project as the user named it on the command line. The commands run inside it,
    unless the program was typed as a relative path.
    """
    program = as_typed("ralphgen --help").partition(" ")[0]
    is_relative = "/" in program and not program.startswith("/")
    place = [] if named == Path() else ["-C", str(named)] if is_relative else ["cd", str(named)]
    more = place if is_relative else []
    steps = [
        line
        for command, comment in _steps(root)
        for line in _lines(["ralphgen", *command, *more], comment)
    ]
    return steps if more == place else [shlex.join(place), *steps]


def default_recipe(root: Path) -> tuple[str, str]:
    """Return the recipe of clients without a session, and one that lets them change rows.

    The first is empty if the default context cannot be read, the second if nothing wider is needed.
    """
    try:
        recipe = str(json.loads((root / CONTEXT).read_bytes())["recipe"])
    except FileNotFoundError:
        recipe = DEFAULT_RECIPE
    except (OSError, ValueError, LookupError, TypeError):
        return "", ""
    if recipe != DEFAULT_RECIPE:
        return recipe, ""
    try:
        policy = read_policy(root, trust_edited=True)
    except RalphgenError:
        return recipe, ""
    gained = (policy.allowed(TALKING, kit) - policy.allowed(recipe, kit) for kit in policy.kits)
    return recipe, TALKING if any(gained) else FULL


def _steps(root: Path) -> Iterator[tuple[list[str], str]]:
    """Yield each next command with its comment."""
    if not read_record(root).is_of_folder and _has_unapproved(root):
        yield ["trust"], "review the commands that this project runs"
    every_tool = read_policy(root, trust_edited=True).every_tool.values()
    has_tasks = any(CREATING in tools for tools in every_tool)
    if not any(every_tool):
        yield shlex.split(command_to_add(root))[1:], "see ralphgen inspect for others"
        yield ["regen"], ""
    yield ["connect", "claude"], f"look at {'tasks' if has_tasks else 'rows'} in Claude Code"
    _, wider = default_recipe(root)
    if wider:
        yield ["session", "create", wider, "--default"], "let it change them, too"
    if not has_tasks:
        yield ["tools"], "see the tools of each recipe"
        return
    features, disciplines = _names(root)
    if disciplines and not features:
        options = ["--feature", "start", "--discipline", disciplines[0], "--ready"]
        yield ["feature", "add", "start"], ""
        yield ["task", "add", "Say hello", *options], ""
    else:
        yield ["task", "list"], ""
    yield ["launch", "--next"], "let an agent do it"


def _has_unapproved(root: Path) -> bool:
    """Return whether the project would run something that the user has not approved."""
    try:
        return bool(untrusted(root, project_items(root)))
    except RalphgenError:
        return True


def _lines(command: Sequence[str], comment: str) -> list[str]:
    """Return a command as a shell reads it, each option with its value on one line."""
    parts: list[list[str]] = [[]]
    for word in command:
        parts += [[]] if word.startswith("-") else []
        parts[-1].append(word)
    first, *more = map(shlex.join, parts)
    lines = [first]
    for part in more:
        if len(as_typed(f"{lines[-1]} {part} \\")) > WIDTH:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}"
    if (
        comment
        and len(lines) == 1
        and len(as_typed(f"{first:<{COMMENT}}  # {comment}")) <= WIDTH + 2
    ):
        lines = [f"{lines[0]:<{COMMENT}}  # {comment}"]
    return lines


def _names(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the features and the disciplines; none if the database cannot be read."""
    try:
        with open_rows(root) as rows:
            return rows.names("features"), rows.names("disciplines")
    except RalphgenError:
        return (), ()
