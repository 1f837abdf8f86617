"""Shell completion of ids, names, statuses and tools of the project around the directory."""

import io
import re
import tomllib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

import typer

from ralphgen.errors import RalphgenError, plain
from ralphgen.project.root import CONFIG, KNOWN_AGENTS, project_root

Offer = tuple[str, str]
"""A value, and what it stands for."""

MOST = 100  # values that are offered
STATUSES = ("draft", "pending", "in_progress", "done", "blocked", "skipped")
STATES = ("claimed", "ready", "stale", "waiting")  # computed
PRIORITIES = ("low", "medium", "high", "critical")


@contextmanager
def as_bash_splits(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Let bash complete a word with colons, which it splits to replace only the last part.

    `COMP_WORDS` and `COMP_CWORD`, if they are in `environment`, get the word in one piece. The
    printed completions lose the part that bash keeps.
    """
    number = environment.get("COMP_CWORD", "")
    words = environment.get("COMP_WORDS", "").split("\n")
    words = words[: int(number) + 1] if number.isdecimal() else []
    if ":" not in words:
        yield
        return
    joined = re.sub(r"\n?:\n?", ":", "\n".join(words)).split("\n")
    environment.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(len(joined) - 1))
    kept = "" if words[-1] == joined[-1] else joined[-1][: joined[-1].rfind(":") + 1]
    offers = io.StringIO()
    try:
        with redirect_stdout(offers):
            yield
    finally:
        print("\n".join(one.removeprefix(kept) for one in offers.getvalue().splitlines()))


def complete_tasks(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the ids that start with a text, with titles."""

    def offers(root: Path) -> list[Offer]:
        from ralphgen.project.schema import open_rows

        with open_rows(root) as rows:
            return [(str(task), plain(title)) for task, title in rows.titles(incomplete, MOST)]

    return _offered(context, offers)


def complete_features(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the names of features that start with a text."""
    return _names(context, incomplete, "features")


def complete_disciplines(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the names of disciplines that start with a text."""
    return _names(context, incomplete, "disciplines")


def complete_workers(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the names of workers that start with a text, with their states."""

    def offers(root: Path) -> list[Offer]:
        from ralphgen.sessions.workers import list_workers

        found = [one for one in list_workers(root) if one.name.startswith(incomplete)]
        return [(one.name, one.state) for one in found[:MOST]]

    return _offered(context, offers)


def complete_statuses(incomplete: str) -> list[str]:
    """Return the statuses that start with a text."""
    return [one for one in STATUSES if one.startswith(incomplete)]


def complete_states(incomplete: str) -> list[str]:
    """Return the statuses and the computed states that start with a text."""
    return [one for one in (*STATUSES, *STATES) if one.startswith(incomplete)]


def complete_priorities(incomplete: str) -> list[str]:
    """Return the priorities that start with a text."""
    return [one for one in PRIORITIES if one.startswith(incomplete)]


def complete_clients(incomplete: str) -> list[str]:
    """Return the MCP clients that start with a text."""
    from ralphgen.emit.clients import CLIENTS

    return [name for name in CLIENTS if name.startswith(incomplete)]


def complete_recipes(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the recipes that start with a text, each with its purpose and number of tools."""

    def offers(root: Path) -> list[Offer]:
        from ralphgen.cli.recipes import described_recipes

        found = described_recipes(root).items()
        return [(name, text) for name, text in found if name.startswith(incomplete)]

    return _offered(context, offers)


def complete_tools(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the tools that start with a text, as KIT:TOOL."""

    def offers(root: Path) -> list[Offer]:
        from ralphgen.agents.calls import read_policy

        every = read_policy(root, trust_edited=True).every_tool
        named = [f"{kit}:{tool}" for kit, tools in every.items() for tool in tools]
        return [(name, "") for name in named if name.startswith(incomplete)]

    return _offered(context, offers)


def complete_agents(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the built-in agents and those of the settings that start with a text.

    In a list, the last name is completed.
    """
    before, comma, begun = incomplete.rpartition(",")

    def offers(root: Path) -> list[Offer]:
        with suppress(OSError, ValueError, LookupError, TypeError):
            settings = tomllib.loads((root / CONFIG).read_text(encoding="utf-8"))
            names.extend(settings["loop"]["agents"])
        found = [name for name in names if name.startswith(begun)]
        return [(f"{before}{comma}{name}", "") for name in found]

    names: list[str] = [*KNOWN_AGENTS]

    return _offered(context, offers)


def _names(context: typer.Context, incomplete: str, table: str) -> list[Offer]:
    def offers(root: Path) -> list[Offer]:
        from ralphgen.project.schema import open_rows

        with open_rows(root) as rows:
            names = [name for name in rows.names(table) if name.startswith(incomplete)]
            return [(name, "") for name in names[:MOST] if name == plain(name)]

    return _offered(context, offers)


def _offered(context: typer.Context, offers: Callable[[Path], list[Offer]]) -> list[Offer]:
    """Return the completions in the project of a command line; none after an error."""
    try:
        return offers(project_root(Path(context.params.get("project") or "")))
    except (RalphgenError, OSError):
        return []
