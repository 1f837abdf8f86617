"""Creates a session: decides what it may see, writes its files, and checks its servers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.environment.ensure import ensure_environment
from ralphgen.environment.location import INTERPRETER_OPTIONS, LOCK_NAME
from ralphgen.errors import ProjectError, Say, UsageError
from ralphgen.kits.registry import KITS
from ralphgen.output import finish_interrupted
from ralphgen.output.files import put
from ralphgen.planning.model import Names, ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.config import Config, read_config
from ralphgen.project.inspect import inspect_project, settings_models
from ralphgen.project.root import FOLDER
from ralphgen.project.rows import ProjectRows, open_rows
from ralphgen.runtime.session import DEFAULT_FILE
from ralphgen.sessions.decide import Subject, context_facts, decide_subject
from ralphgen.sessions.discipline_servers import discipline_servers
from ralphgen.sessions.model import PreparedSession, Request, Served
from ralphgen.sessions.server_query import ServerQueryError, query_server
from ralphgen.sessions.store import (
    CONTEXT,
    MCP_CONFIG,
    SESSIONS,
    make_folder,
    new_id,
    prune_sessions,
    remove,
)
from ralphgen.suggestion import suggestion


def create_session(root: Path, request: Request, *, say: Say) -> PreparedSession:
    """Create a session of the project in `root`, whose servers would start; prune old ones.

    Raises `UsageError` for a request that cannot be met, and `ProjectError` for a project whose
    state or server has to be fixed first; nothing of the session is left then.
    """
    finish_interrupted(root / FOLDER)
    project = inspect_project(root, KITS)
    plan = plan_server(project, KITS)
    kits = _kits(plan, request.kits)
    with open_rows(root, project.schema) as rows:
        subject = decide_subject(plan, request, rows)
        others = _other_servers(root, subject.discipline, rows)
        title, created = rows.identity()
    python = _interpreter(root, say)
    prune_sessions(root)
    session_id = new_id(root, subject.recipe, subject.shown)
    context = root / SESSIONS / session_id / CONTEXT
    server = root / FOLDER / "server.py"
    commands = {
        kit: (str(python), *INTERPRETER_OPTIONS, str(server), kit, "--context", str(context))
        for kit in kits
    }
    made_for = {"root": str(root), "title": title, "created": created}
    facts = context_facts(plan, subject, kits, session_id, made_for)
    digest = make_folder(root, session_id, facts, lambda sha: _mcp_config(commands, sha, others))
    try:
        served = tuple(_served(kit, _fixed(command, digest)) for kit, command in commands.items())
    except BaseException:
        remove(context.parent)
        raise
    return _opened(root, plan, subject, context, digest, served, tuple(others))


def create_default_context(root: Path, request: Request, *, say: Say) -> tuple[Path, Names]:
    """Write the context that a server reads which is started without one.

    Returns its path, and warnings for people. Raises as `create_session` does. The file says
    nothing of the folder, so that a project can move.
    """
    session = create_session(root, request, say=say)
    facts = json.loads(session.context.read_bytes())
    del facts["project"]
    remove(session.folder)
    path = root / FOLDER / DEFAULT_FILE
    put(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return path, session.warnings


def _kits(plan: ServerPlan, wanted: Names) -> Names:
    """Return the kits of the session: those that are wanted in their order, else all on."""
    known = tuple(kit.key for kit in plan.kits)
    for kit in wanted:
        if kit not in known:
            hint = suggestion(kit, known, "the kits")
            raise UsageError(f'this project has no kit "{kit}"', hint)
    return tuple(kit for kit in known if kit in wanted) if wanted else known


def _other_servers(
    root: Path, discipline: str | None, rows: ProjectRows
) -> dict[str, dict[str, Any]]:
    """Return the MCP servers of the discipline, as entries of a config."""
    if discipline is None:
        return {}
    settings = _config(root).disciplines.get(discipline)
    configured = settings.mcp_servers if settings is not None else {}
    reserved = tuple(kit.key for kit in KITS)
    return discipline_servers(discipline, rows.mcp_servers(discipline), configured, reserved)


def _config(root: Path) -> Config:
    return read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values


def _interpreter(root: Path, say: Say) -> Path:
    """Return the environment's Python; the environment is made where it is missing."""
    try:
        lock = (root / FOLDER / LOCK_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        text = f'there is no whole server in "{root / FOLDER}"'
        raise ProjectError(text, 'run "ralphgen regen"') from error
    return ensure_environment(lock, say=say).python


def _fixed(command: Names, sha256: str) -> Names:
    """Return the command line of a server that takes only the context of this digest."""
    return (*command, "--sha256", sha256)


def _mcp_config(
    commands: Mapping[str, Names], sha256: str, others: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the config that a client takes: the project's servers, then the discipline's."""
    own = {}
    for kit, command in commands.items():
        program, *arguments = _fixed(command, sha256)
        own[kit] = {"command": program, "args": arguments}
    return {"mcpServers": {**own, **others}}


def _opened(
    root: Path,
    plan: ServerPlan,
    subject: Subject,
    context: Path,
    sha256: str,
    served: tuple[Served, ...],
    others: Names,
) -> PreparedSession:
    return PreparedSession(
        root=root,
        session_id=context.parent.name,
        recipe=subject.recipe,
        profile=plan.policy.recipes[subject.base].base or subject.base,
        folder=context.parent,
        context=context,
        mcp_config=context.with_name(MCP_CONFIG),
        sha256=sha256,
        task=subject.task,
        feature=subject.feature,
        discipline=subject.discipline,
        target=subject.target,
        served=served,
        other_servers=others,
        warnings=_warnings(plan, subject),
    )


def _served(kit: str, command: Names) -> Served:
    """Return a server's own description; raise `ProjectError` if it would not start."""
    try:
        said = json.loads(query_server(command, "--describe"))
    except ServerQueryError as error:
        raise ProjectError(f'the server "{kit}" would not start: {error}') from error
    except ValueError as error:
        text = f'the server "{kit}" cannot be understood: {error}'
        raise ProjectError(text, 'run "ralphgen doctor"') from error
    prompt = next((prompt["text"] for prompt in said["prompts"]), "")
    return Served(kit, command, tuple(said["tools"]), said["instructions"], prompt)


def _warnings(plan: ServerPlan, subject: Subject) -> Names:
    """Return what a person should know of the discipline's overrides."""
    return tuple(line for discipline, line in plan.overrides if discipline == subject.discipline)
