"""What the sessions of a project make a person run, as items of trust."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralphgen.generate.removals import refuse_behind, refuse_unstartable
from ralphgen.kits.registry import KITS
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.config import Config, read_config
from ralphgen.project.discipline_servers import discipline_servers
from ralphgen.project.inspect import inspect_project, settings_models, without_new_columns
from ralphgen.project.model import Project
from ralphgen.project.prompts import prompt_names, read_words
from ralphgen.project.rows import ProjectRows, open_rows
from ralphgen.rendering.server import render_files
from ralphgen.trust.decide import (
    Ask,
    TrustItem,
    check_items,
    claude_items,
    discipline_items,
    launch_items,
    loop_items,
    require_trust,
    server_items,
    told_items,
    tool_items,
    words_items,
)
from ralphgen.trust.repository import git_items

Servers = Mapping[str, Mapping[str, Any]]
"""Entries of an MCP config, by name."""


def session_items(
    root: Path,
    plan: ServerPlan,
    config: Config,
    servers: Mapping[str | None, Servers],
    words: Sequence[TrustItem],
    work_tree: Path | None = None,
    *,
    trust_edited: bool = False,
) -> list[TrustItem]:
    """Return what has to be trusted for a session: the server, settings, others' servers, words.

    `servers` are those that disciplines bring along, by discipline; `words` are what the project
    says to agents. `work_tree` is where these work, without one `root`. Raises `UntrustedError` for
    generated files that were edited, unless `trust_edited`.
    """
    run = [*check_items(config.done), *tool_items(root)]
    return [
        *server_items(root, lambda: render_files(plan), run, trust_edited=trust_edited),
        *launch_items(config.launch),
        *run,
        *loop_items(config.loop),
        *claude_items(work_tree or root),
        *told_items(config.describe),
        *words,
        *(
            item
            for discipline, entries in servers.items()
            for item in discipline_items(discipline, entries, config)
        ),
    ]


def project_items(root: Path) -> list[TrustItem]:
    """Return what has to be trusted for every session of the project in `root`.

    Raises `UntrustedError` for generated files that were edited, and `ProjectError` for a project
    that cannot be read.
    """
    project, _ = without_new_columns(root, inspect_project(root, KITS))
    config = read_settings(root)
    with open_rows(root) as rows:
        names = dict.fromkeys([*rows.names("disciplines"), *config.disciplines])
        servers: dict[str | None, Servers] = {
            name: servers_of(name, config, rows) for name in names
        }
    words = words_items(read_words(root, prompt_names(root)), project.recipes)
    return [
        *session_items(root, plan_server(project, KITS), config, servers, words),
        *git_items(root, remote=config.loop.remote is not None),
    ]


def items_of(root: Path, discipline: str) -> list[TrustItem]:
    """Return the MCP servers of one discipline; raise `ProjectError` where they cannot be read."""
    config = read_settings(root)
    with open_rows(root) as rows:
        return discipline_items(discipline, servers_of(discipline, config, rows), config)


def ask_trust(root: Path, project: Project, items: Sequence[TrustItem], ask: Ask) -> str:
    """Ask for those of the items that are not trusted, as `require_trust` does.

    Raises `ProjectError` before where the server would not start on the database: nobody is asked
    in vain.
    """
    if items:
        refuse_unstartable(root, project)
    return require_trust(root, items, ask)


def require_server(root: Path, *, trust_edited: bool = False) -> None:
    """Return where the project's server may start: it is on record, or what ralphgen writes.

    The checks and tools that it would run come first: a server that is put on record is not asked
    for again.
    Raises `UntrustedError` where it may not, and `ProjectError` where nobody can say, or the
    database is behind: a server that a pull has brought is then none that could be written here.
    """
    project, _ = without_new_columns(root, inspect_project(root, KITS))
    plan = plan_server(project, KITS)
    run = [*check_items(read_settings(root).done), *tool_items(root)]
    require_trust(root, run, lambda _shown: False)
    items = server_items(root, lambda: render_files(plan), run, trust_edited=trust_edited)
    if items:
        refuse_behind(root, project)
    require_trust(root, items, lambda _shown: False)


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


def read_settings(root: Path) -> Config:
    """Return the project's settings; raise `ProjectError` where they cannot be read."""
    return read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values
