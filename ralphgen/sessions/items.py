"""What the sessions of a project make a person run, as items of trust."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ralphgen.emit.trust import (
    Ask,
    Servers,
    TrustItem,
    content_items,
    git_items,
    own_items,
    require_trust,
    run_items,
    server_items,
    written_items,
)
from ralphgen.generate.removals import refuse_behind, refuse_unstartable
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.approvals import RUNNING
from ralphgen.project.config import Config
from ralphgen.project.inspect import inspect_project, without_new_columns
from ralphgen.project.model import Project
from ralphgen.rendering.server import render_files


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
    run = run_items(root, config)
    return [
        *server_items(root, lambda: render_files(plan), run, trust_edited=trust_edited),
        *own_items(root, config, servers, words, work_tree or root),
    ]


def project_items(root: Path) -> list[TrustItem]:
    """Return what has to be trusted for every session of the project in `root`.

    Raises `UntrustedError` for generated files that were edited, and `ProjectError` for a project
    that cannot be read.
    """
    project, _ = without_new_columns(root, inspect_project(root, KITS))
    plan, config = plan_server(project, KITS), read_settings(root)
    server = server_items(
        root, lambda: render_files(plan), run_items(root, config), trust_edited=False
    )
    git = git_items(root, remote=config.loop.remote is not None)
    return [*server, *written_items(root, project), *git]


def ask_trust(root: Path, project: Project, items: Sequence[TrustItem], ask: Ask) -> str:
    """Ask for those of the items that are not trusted, as `require_trust` does.

    Raises `ProjectError` before where the server would not start on the database: nobody is asked
    in vain.
    """
    if items:
        refuse_unstartable(root, project)
    return require_trust(root, items, ask, is_whole=True)


def require_server(root: Path, kits: Collection[str] = (), *, trust_edited: bool = False) -> None:
    """Return where the project's server may start: it is on record, or what ralphgen writes.

    The checks and tools that it would run come first: a server that is put on record is not asked
    for again.
    Raises `UntrustedError` where it may not, and `ProjectError` where nobody can say, or the
    database is behind: a server that a pull has brought is then none that could be written here.
    """
    project, _ = without_new_columns(root, inspect_project(root, KITS))
    plan = plan_server(project, KITS)
    require_content(root, kits)
    run = run_items(root, read_settings(root))
    require_trust(root, run, lambda _shown: False)
    items = server_items(root, lambda: render_files(plan), run, trust_edited=trust_edited)
    if items:
        refuse_behind(root, project)
    require_trust(root, items, lambda _shown: False)


def require_content(root: Path, kits: Collection[str]) -> None:
    """Raise `UntrustedError` if one of the kits would run content that is not trusted.

    Without names, all kits of the project count.
    """
    on = set(read_settings(root).kits)
    if RUNNING & on & (set(kits) or on):
        require_trust(root, content_items(root), lambda _shown: False)
