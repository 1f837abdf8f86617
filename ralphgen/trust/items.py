"""Collects what a project could start or tell agents, for all of its sessions or for one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ralphgen.kits.registry import KITS, read_settings
from ralphgen.project.config import Config
from ralphgen.project.discipline_servers import discipline_servers
from ralphgen.project.model import Project
from ralphgen.project.prompts import prompt_names, read_words
from ralphgen.project.rows import ProjectRows, open_rows
from ralphgen.project.served_tables import hidden_columns
from ralphgen.runtime.system import is_below_launch
from ralphgen.trust.decide import (
    TrustItem,
    check_items,
    client_items,
    content_items,
    context_items,
    database_items,
    discipline_items,
    file_items,
    launch_items,
    loop_items,
    record_items,
    refuse_foreign_link,
    settings_items,
    told_items,
    tool_items,
    untrusted,
    words_items,
)

Servers = Mapping[str, Mapping[str, Any]]
"""Entries of an MCP config, by name."""


def own_items(
    root: Path,
    config: Config,
    servers: Mapping[str | None, Servers],
    words: Sequence[TrustItem],
    work_tree: Path,
) -> list[TrustItem]:
    """Return what has to be trusted for a session besides the server.

    `servers` are those of disciplines, by discipline; `words` are the project's own to agents.
    Clients and agents work in `work_tree`.
    """
    return [
        *launch_items(config.launch),
        *run_items(root, config),
        *loop_items(config.loop),
        *file_items(root),
        *client_items(work_tree),
        *content_items(work_tree),
        *told_items(config.describe),
        *words,
        *(
            item
            for discipline, entries in servers.items()
            for item in discipline_items(discipline, entries, config)
        ),
    ]


def run_items(root: Path, config: Config) -> list[TrustItem]:
    """Return what the project's server starts or reaches besides itself."""
    settings = [*settings_items(config), *database_items(root)]
    return [*check_items(config.done), *tool_items(root), *context_items(root), *settings]


def written_items(root: Path, project: Project) -> list[TrustItem]:
    """Return what has to be trusted for every session besides the server."""
    config = read_settings(root)
    with open_rows(root) as rows:
        names = dict.fromkeys([*rows.names("disciplines"), *config.disciplines])
        servers: dict[str | None, Servers] = {
            name: servers_of(name, config, rows) for name in names
        }
    words = words_items(read_words(root, prompt_names(root)), project.recipes)
    return own_items(root, config, servers, words, root)


def items_of(root: Path, discipline: str) -> list[TrustItem]:
    """Return the MCP servers of one discipline; raise `ProjectError` where they cannot be read."""
    config = read_settings(root)
    with open_rows(root) as rows:
        return discipline_items(discipline, servers_of(discipline, config, rows), config)


def servers_of(
    discipline: str | None, config: Config, rows: ProjectRows
) -> dict[str, dict[str, Any]]:
    """Return the MCP servers that a discipline brings along, as entries of an MCP config.

    Raises `ProjectError` where they cannot be read.
    """
    if discipline is None:
        return {}
    settings = config.disciplines.get(discipline)
    configured = settings.mcp_servers if settings is not None else {}
    reserved = tuple(kit.key for kit in KITS)
    return discipline_servers(discipline, rows.mcp_servers(discipline), configured, reserved)


def hidden_in(root: Path) -> frozenset[str]:
    """Return the columns that the settings hide, as `table.column`, in lower case."""
    settings = read_settings(root)
    return frozenset(map(str.lower, (*settings.db_schema.hide, *hidden_columns(settings))))


@contextmanager
def recorded_writes(root: Path, places: Iterable[Path]) -> Iterator[None]:
    """Record the files that a command of the user writes in the block, at or below places.

    A file that was not trusted before stays so: only a part of it is the command's. Raises
    `UntrustedError` if a link that is not the user's own leads a place out of the project.
    """
    for place in places:
        refuse_foreign_link(root, place)
    before = {item.file for item in untrusted(root, _files(root))}
    try:
        yield
    finally:
        if not is_below_launch():
            record_items(root, [item for item in _files(root) if item.file not in before])


def _files(root: Path) -> list[TrustItem]:
    return [*file_items(root), *client_items(root), *content_items(root)]
