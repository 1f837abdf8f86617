"""Creates a session: decides what it may see, writes its files, and checks its servers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.emit.trust import Ask, TrustItem, context_items, record_items, servers_of, untrusted
from ralphgen.emit.verify import TRUST_EDITED, refuse_edited
from ralphgen.emit.write import finish_interrupted
from ralphgen.environment.program import server_program
from ralphgen.errors import ProjectError, Say, UsageError
from ralphgen.files import interrupted, put, refuse_irregular
from ralphgen.init.scaffold import any_database, serves_any_database
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.planning.model import Names, ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.config import Config
from ralphgen.project.inspect import inspect_project, without_new_columns
from ralphgen.project.model import Project
from ralphgen.project.root import FOLDER, sessions_folder
from ralphgen.project.rows import open_rows
from ralphgen.runtime.context import BY_CLIENT
from ralphgen.runtime.engine.schema import WAITING
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.session import DEFAULT_FILE
from ralphgen.sessions.brief import session_words, write_system
from ralphgen.sessions.claims import claim_next, claim_task, held_while_made, next_task
from ralphgen.sessions.decide import (
    TASKS,
    Request,
    Subject,
    claims_task,
    context_facts,
    decide_subject,
    no_tasks,
    project_facts,
)
from ralphgen.sessions.items import ask_trust, session_items
from ralphgen.sessions.model import Brief, PreparedSession, Served, TaskClaim
from ralphgen.sessions.server_query import ServerQueryError, query_server
from ralphgen.sessions.snapshot import ACCEPT, fixed_rules
from ralphgen.sessions.store import (
    CHANCE,
    CONTEXT,
    MCP_CONFIG,
    SNAPSHOT,
    make_folder,
    new_id,
    prune_sessions,
    remove,
)
from ralphgen.suggestion import suggestion

MARGIN = 60  # seconds to look at the files before and after them


@dataclass(frozen=True, slots=True)
class Basis:
    """What sessions of the project in `root` are made of; `waiting` are columns left out."""

    root: Path
    project: Project
    waiting: Names
    plan: ServerPlan
    policy: Policy
    kits: Names
    config: Config


def create_session(
    root: Path,
    request: Request,
    *,
    say: Say,
    ask: Ask,
    work_tree: Path | Callable[[int], Path] | None = None,
    dry_run: bool = False,
    claims: bool = True,
    trust_edited: bool = False,
    user: str | Callable[[str], str] = "",
    leaves_out: bool = False,
) -> PreparedSession:
    """Create a session of the project in `root`, whose servers would start; prune old ones.

    Its agent works in `work_tree`, another one of the same repository, which may be made ready for
    its task once that is held, or in `root` itself. If `claims_task` says so, and unless `claims`
    forbids it, it holds the task from now on, in the hands of this process:
    `keep_claim` and `end_claim` are for who runs it. A `dry_run` writes and prunes marked folders,
    and does nothing else: what other sessions bring in order is an error then. What the project
    makes a person run goes to `ask`, unless it is on record. `trust_edited` starts servers whose
    files were edited. `user` is how the user takes part, by the profile if that decides (see
    `runtime/context.py`); an agent alone has none. `leaves_out` makes a session without the
    settings of clients that are not on record, in place of asking. Raises `UsageError` for what
    cannot be met, `UntrustedError`, `ClaimedError`, `NothingReadyError`, and `ProjectError` for
    what has to be fixed first; nothing is left then.
    """
    _finish_write(root, may=not dry_run)
    basis = basis_of(root, request)
    subject, claim = claimed_subject(basis, request, takes=claims and not dry_run)
    with held_while_made(claim):
        tree = work_tree(subject.task or 0) if callable(work_tree) else work_tree or root
        profile = basis.policy.profile(subject.base)
        part = user(profile) if callable(user) else user
        session = _made(
            basis, subject, claim, say, ask, tree, dry_run, trust_edited, part, leaves_out
        )
    return replace(session, claim=claim)


def basis_of(root: Path, request: Request) -> Basis:
    """Return what the project's sessions are made of; raises `ProjectError` and `UsageError`."""
    project, waiting = without_new_columns(root, inspect_project(root, KITS))
    plan = plan_server(project, KITS)
    policy = plan.policy
    kits = _kits(plan, request.kits)
    return Basis(root, project, waiting, plan, policy, kits, read_settings(root))


def claimed_subject(
    basis: Basis, request: Request, *, takes: bool, chance: int = CHANCE
) -> tuple[Subject, TaskClaim | None]:
    """Return what the session is about, with its claim if it has one; only then is a task taken.

    Where it `takes` none, the next task is that which would be taken. `chance` is how many bytes of
    it the id of a session has that takes one. Raises as `create_session` does.
    """
    root, project, config = basis.root, basis.project, basis.config
    if (request.next or request.task is not None) and any_database(project.kits):
        raise no_tasks(project.kits)
    with open_rows(root, has_tasks=not serves_any_database(root)) as rows:
        subject = decide_subject(basis.policy, request, rows)
    _refuse_without_tools(basis, subject)
    if request.next:
        if not claims_task(basis.policy, replace(subject, task=0)):
            text = f'sessions of the recipe "{request.recipe}" do not claim their task'
            raise UsageError(text, "choose one with --task")
        claim = claim_next(root, project, config, request, chance) if takes else None
        found = next_task(root, project, request) if claim is None else claim.task
        with open_rows(root, has_tasks=not serves_any_database(root)) as rows:
            named = replace(request, task=found, next=False)
            return decide_subject(basis.policy, named, rows), claim
    task = subject.task
    if task is None or not takes or not claims_task(basis.policy, subject):
        return subject, None
    session_id = new_id(root, subject.recipe, subject.shown, chance)
    return subject, claim_task(root, project, config, session_id, task)


def _refuse_without_tools(basis: Basis, subject: Subject) -> None:
    """Raise `UsageError` if no tool of the session's kits is in its recipe."""
    policy = basis.policy
    having = [
        name for name in policy.recipes if any(policy.allowed(name, kit) for kit in basis.kits)
    ]
    if subject.base not in having:
        kits = f"kit{'s' * (len(basis.kits) > 1)} " + ", ".join(f'"{kit}"' for kit in basis.kits)
        text = f'the recipe "{one_line(subject.recipe)}" has no tools of the {kits}'
        raise UsageError(text, f"recipes that have tools there: {', '.join(map(one_line, having))}")


def _made(
    basis: Basis,
    subject: Subject,
    claim: TaskClaim | None,
    say: Say,
    ask: Ask,
    work_tree: Path,
    dry_run: bool,
    trust_edited: bool,
    user: str,
    leaves_out: bool,
) -> PreparedSession:
    """Return the session on a subject, once its files are written and its servers have spoken."""
    root, plan, config = basis.root, basis.plan, basis.config
    with open_rows(root, has_tasks=not serves_any_database(root)) as rows:
        others = servers_of(subject.discipline, config, rows)
        identity = rows.identity(basis.project.schema.hide)
        words = session_words(root, basis.project, subject, rows)
    run = {subject.discipline: others}
    items = session_items(
        root, plan, config, run, words.items, work_tree, trust_edited=trust_edited
    )
    left = untrusted(root, [item for item in items if item.is_client]) if leaves_out else []
    items = [item for item in items if item not in left]
    unrecorded = filter(None, [ask_trust(root, basis.project, items, ask)])
    program = server_program(root / FOLDER, None if dry_run else say)
    if not trust_edited:
        refuse_edited(root / FOLDER)  # once more: a person and a build take their time
    prune_sessions(root, config.sessions.keep_days, dry_runs_only=dry_run)
    shown = subject.recipe, subject.shown
    session_id = new_id(root, *shown) if claim is None else claim.session_id
    context = sessions_folder(root) / session_id / CONTEXT
    commands = _commands(program, basis.kits, context, trust_edited=trust_edited)
    made_for = project_facts(root, work_tree, identity)
    brief = words.facts(config.brief)
    facts = context_facts(basis.policy, subject, basis.kits, session_id, made_for, brief)
    held: dict[str, Any] = {"user": user} if user else {}
    held |= {} if claim is None else {"claim": claim.facts(kept=work_tree != root)}
    rules, more = fixed_rules(root, work_tree, subject.feature, settles=not dry_run)
    wired = partial(_mcp_config, commands, others, _run_of_checks(rules))
    digest = make_folder(root, session_id, facts | rules | held, wired, more, dry_run=dry_run)
    served = _all_served(commands, digest, context.parent)
    waits = map(WAITING.format, basis.waiting)
    useless = [line for name, line in plan.overrides if name == subject.discipline]
    warnings = [*unrecorded, *waits, *useless, *words.warnings]
    warnings += [f"not approved, and left out: {item.shown}" for item in left]
    if SNAPSHOT in more and (earlier := json.loads(more[SNAPSHOT])["earlier"]):
        named = ", ".join(map(one_line, earlier))
        warnings.append(f"an earlier session changed protected files: {named}; {ACCEPT}")
    session = _opened(
        root, plan, subject, context, digest, served, tuple(others), items, config, warnings
    )
    return replace(session, model=words.model, work_tree=work_tree, without_settings=bool(left))


def create_default_context(
    root: Path, request: Request, *, say: Say, ask: Ask, trust_edited: bool = False
) -> tuple[Path, Names]:
    """Write the context that a server reads which is started without one.

    Returns its path, and warnings for people. Raises as `create_session` does. The file says
    nothing of the folder, so that a project can move.
    """
    session = create_session(
        root, request, say=say, ask=ask, claims=False, trust_edited=trust_edited, user=BY_CLIENT
    )
    facts = json.loads(session.context.read_bytes())
    for fixed in ("project", "brief", "done"):  # whoever commits the file could write these words
        facts.pop(fixed, None)
    remove(session.folder)
    path = root / FOLDER / DEFAULT_FILE
    refuse_irregular(root / FOLDER, [DEFAULT_FILE])  # a link in a clone may lead anywhere
    put(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    failure = record_items(root, context_items(root))
    return path, (*session.warnings, *filter(None, [failure]))


def _finish_write(root: Path, *, may: bool) -> None:
    """Finish a write of the server that was interrupted; raise `ProjectError` where none may."""
    if not may and interrupted(root / FOLDER):
        raise ProjectError(f'a write of "{FOLDER}" was interrupted', 'run "ralphgen regen"')
    finish_interrupted(root / FOLDER)


def _kits(plan: ServerPlan, wanted: Names) -> Names:
    """Return the kits of the session: those that are wanted in their order, else all on."""
    known = tuple(kit.key for kit in plan.kits)
    for kit in wanted:
        if kit not in known:
            hint = suggestion(kit, known, "the kits")
            raise UsageError(f'this project has no kit "{kit}"', hint)
    return tuple(kit for kit in known if kit in wanted) if wanted else known


def _commands(
    program: Names, kits: Names, context: Path, *, trust_edited: bool
) -> dict[str, Names]:
    """Return, by kit, the command line of the server that `program` starts."""
    options = [*([TRUST_EDITED] if trust_edited else []), "--context", str(context)]
    return {kit: (*program, kit, *options) for kit in kits}


def _fixed(command: Names, sha256: str) -> Names:
    """Return the command line of a server that takes only the context of this digest."""
    return (*command, "--sha256", sha256)


def _mcp_config(
    commands: Mapping[str, Names],
    others: Mapping[str, Mapping[str, Any]],
    longest: Mapping[str, int],
    sha256: str,
) -> dict[str, Any]:
    """Return the config that a client takes: the project's servers, then the discipline's.

    `longest` says, by kit, how many seconds a call may take where a client may not expect it.
    """
    own: dict[str, dict[str, Any]] = {}
    for kit, command in commands.items():
        program, *arguments = _fixed(command, sha256)
        own[kit] = {"command": program, "args": arguments}
        if kit in longest:
            own[kit]["timeout"] = 1000 * longest[kit]  # milliseconds, as Claude Code has it
    return {"mcpServers": {**own, **others}}


def _run_of_checks(rules: Mapping[str, Any]) -> dict[str, int]:
    """Return how long a call of `run_checks` may take; empty in a project without checks."""
    checks = rules.get("done", {}).get("checks", ())
    return {TASKS: sum(one["timeout"] for one in checks) + MARGIN} if checks else {}


def _opened(
    root: Path,
    plan: ServerPlan,
    subject: Subject,
    context: Path,
    sha256: str,
    served: tuple[Served, ...],
    others: Names,
    items: Sequence[TrustItem],
    config: Config,
    warnings: Sequence[str],
) -> PreparedSession:
    return PreparedSession(
        root=root,
        work_tree=root,
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
        runs=tuple(item.shown for item in items),
        launch=config.launch,
        transcripts=config.sessions.transcripts,
        warnings=tuple(warnings),
    )


def _all_served(commands: Mapping[str, Names], digest: str, folder: Path) -> tuple[Served, ...]:
    """Return what each server says of itself, with the brief in a file of the session's folder.

    Where a server would not start, the folder goes.
    """
    try:
        served = tuple(_served(kit, _fixed(command, digest)) for kit, command in commands.items())
        write_system(folder, served)
    except BaseException:
        remove(folder)
        raise
    return served


def _served(kit: str, command: Names) -> Served:
    """Return a server's own description; raise `ProjectError` if it would not start."""
    try:
        said = json.loads(query_server(command, "--describe"))
    except ServerQueryError as error:
        raise ProjectError(f'the server "{kit}" does not start: {error}') from error
    except ValueError as error:
        text = f'the server "{kit}" returned an invalid description: {error}'
        raise ProjectError(text, 'run "ralphgen doctor"') from error
    brief = said.get("brief")
    prompt = next((prompt["text"] for prompt in said["prompts"]), "")
    return Served(
        kit,
        command,
        tuple(said["tools"]),
        said["instructions"],
        prompt if brief is None else brief["task"],
        None if brief is None else Brief(**{**brief, "sections": tuple(brief["sections"])}),
    )
