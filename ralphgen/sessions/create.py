"""Creates a session: decides what it may see, writes its files, and checks its servers."""

import json
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.emit.trust import (
    Ask,
    Servers,
    TrustItem,
    content_items,
    context_items,
    git_items,
    own_file_items,
    own_items,
    record_items,
    require_trust,
    run_items,
    server_items,
    servers_of,
    untrusted,
    words_items,
)
from ralphgen.emit.workflows import refuse_behind, refuse_unstartable
from ralphgen.emit.write import TRUST_EDITED, finish_interrupted, refuse_edited
from ralphgen.environment.program import server_program
from ralphgen.errors import ProgramError, ProjectError, Say, UsageError, suggestion
from ralphgen.files import WRITE_HINT, interrupted, put, refuse_irregular
from ralphgen.kits.project import Project
from ralphgen.kits.registry import hint_without_tools, read_settings
from ralphgen.planning import PROFILES, Names
from ralphgen.project.approvals import RUNNING
from ralphgen.project.config import (
    ALL,
    PROMPTS,
    SUFFIX,
    BriefConfig,
    Words,
    prompt_names,
    read_words,
)
from ralphgen.project.model import OwnRecipe
from ralphgen.project.root import FOLDER, sessions_folder
from ralphgen.project.schema import ProjectRows
from ralphgen.runtime.engine import WAITING
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import reason, write_new
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.session import BY_CLIENT, DEFAULT_FILE
from ralphgen.sessions.claims import claim_during_creation, claim_next, claim_task, next_task
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
from ralphgen.sessions.model import Brief, PreparedSession, Served, TaskClaim
from ralphgen.sessions.snapshot import ACCEPT, fixed_rules
from ralphgen.sessions.store import (
    CHANCE,
    CONTEXT,
    MCP_CONFIG,
    OURS_ALONE,
    SNAPSHOT,
    SYSTEM,
    make_folder,
    new_id,
    prune_sessions,
    remove,
)

OWN_NAME = "server.py: "  # a server's line begins with it
PATIENCE = 60.0  # seconds


class ServerQueryError(Exception):
    """Why a server gave no answer: its own line, or that it cannot be run at all."""


def run_to_end(
    command: Sequence[str],
    given: str = "",
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program on the input `given`; return its exit code and both streams as text.

    Raises `OSError` if it cannot be run, and `subprocess.TimeoutExpired` if it does not end.
    """
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        cwd=cwd,
        env=env,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


def query_server(command: Sequence[str], option: str) -> str:
    """Return a server's output for `--check` or `--describe`; raises `ServerQueryError`."""
    try:
        done = run_to_end([*command, option])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerQueryError(f'"{command[0]}" cannot be run: {error}') from error
    if done.returncode:
        said = (done.stderr.splitlines() or [""])[-1].removeprefix(OWN_NAME)
        raise ServerQueryError(said or f"it ended with exit code {done.returncode}")
    return done.stdout


def session_items(
    project: Project,
    servers: Mapping[str | None, Servers],
    words: Sequence[TrustItem],
    work_tree: Path,
    *,
    trust_edited: bool,
) -> list[TrustItem]:
    """Return the items that a session requires: server, settings, other servers, instructions.

    `servers` are the disciplines' own servers, by discipline; `words` are the project's
    instructions to agents, which work in `work_tree`. Raises `UntrustedError` for generated files
    that were edited, unless `trust_edited`.
    """
    return [
        *server_items(project, trust_edited=trust_edited),
        *own_items(project, servers, words, work_tree),
    ]


def project_items(root: Path) -> list[TrustItem]:
    """Return the items that every session of the project in `root` requires.

    Raises `UntrustedError` for generated files that were edited, and `ProjectError` for a project
    that cannot be read.
    """
    project = Project(root, as_served=True)
    server = server_items(project, trust_edited=False)
    git = git_items(root, remote=project.settings.uses_remote)
    return [*server, *own_file_items(project), *git]


def ask_trust(project: Project, items: Sequence[TrustItem], ask: Ask) -> str:
    """Ask for trust in the untrusted items, as `require_trust` does.

    Raises `ProjectError` first if the server would not start on the database, to avoid a pointless
    question.
    """
    if untrusted(project.root, items):
        refuse_unstartable(project)
    return require_trust(project.root, items, ask, is_whole=True)


def require_server(root: Path, kits: Collection[str] = (), *, trust_edited: bool = False) -> None:
    """Return if the project's server may start: it is recorded, or generated by this version.

    Its checks and tools are verified first, so that a server recorded here is not asked for again.
    Raises `UntrustedError` if it may not start. Raises `ProjectError` if that is unknown, or if the
    database is out of date: a pulled server can then not be generated here for comparison.
    """
    project = Project(root, as_served=True)
    _ = project.plan  # an invalid plan is reported first
    require_content(root, kits)
    require_trust(root, run_items(project), lambda _shown: False)
    items = server_items(project, trust_edited=trust_edited)
    if items:
        refuse_behind(project)
    require_trust(root, items, lambda _shown: False)


def require_content(root: Path, kits: Collection[str]) -> None:
    """Raise `UntrustedError` if one of the kits would run content that is not trusted.

    Without names, all kits of the project count.
    """
    on = set(read_settings(root).kits)
    if RUNNING & on & (set(kits) or on):
        require_trust(root, content_items(root), lambda _shown: False)


@dataclass(frozen=True, slots=True)
class ProjectPrompts:
    """The project's own instructions to the agents of a session: its prompts and its recipe.

    `warnings` name the prompts that no session receives.
    """

    prompts: tuple[Words, ...]
    recipe: OwnRecipe | None
    warnings: tuple[str, ...]

    @property
    def model(self) -> str:
        """The model that the recipe requests, empty if it requests none."""
        return self.recipe.model if self.recipe is not None else ""

    @property
    def items(self) -> list[TrustItem]:
        """The items that require trust."""
        return words_items(self.prompts, [self.recipe] if self.recipe is not None else [])

    def facts(self, config: BriefConfig) -> dict[str, object]:
        """Return the session context's values for its brief, by key; empty ones are left out."""
        facts = {
            "max_characters": config.max_characters,
            "features": config.features if config.features != "inline" else "",
            "description": self.recipe.description if self.recipe is not None else "",
            "prompt": self.recipe.prompt if self.recipe is not None else "",
            "words": [{"file": words.file, "text": words.text} for words in self.prompts],
        }
        return {key: value for key, value in facts.items() if value}


def project_prompts(project: Project, subject: Subject, rows: ProjectRows) -> ProjectPrompts:
    """Return the project's instructions to the agents of a session.

    These are the prompts for all sessions, then those for the recipe; for a row of
    `recipe_configs`, those for its base come first. Raises `ProjectError` for files that cannot be
    used.
    """
    own = {recipe.name: recipe for recipe in project.facts.recipes}
    prompts = read_words(project.root, (ALL, subject.base, subject.recipe))
    known = {ALL, *PROFILES, *own, *rows.names("recipe_configs")}
    useless = (
        f"{PROMPTS}/{one_line(name)}{SUFFIX} has no effect: there is no such recipe"
        for name in prompt_names(project.root)
        if name not in known
    )
    return ProjectPrompts(prompts, own.get(subject.base), tuple(useless))


def write_system(folder: Path, served: Sequence[Served]) -> None:
    """Write the system part of the brief into the folder of a session, if it has a brief.

    Raises `ProjectError` if that fails.
    """
    try:
        for brief in [one.brief for one in served if one.brief is not None][:1]:
            write_new(str(folder / SYSTEM), f"{brief.system}\n".encode(), mode=OURS_ALONE)
    except OSError as error:
        text = f'"{folder / SYSTEM}" cannot be written: {reason(error)}'
        raise ProgramError(text, WRITE_HINT) from error


MARGIN = 60  # seconds to look at the files before and after them


@dataclass(frozen=True, slots=True)
class Basis:
    """The input for a session: the project as its server sees it, and the requested kits."""

    project: Project
    kits: Names

    @property
    def policy(self) -> Policy:
        """The tools of each recipe."""
        return self.project.plan.policy


def create_session(
    root: Path,
    request: Request,
    *,
    say: Say,
    ask: Ask,
    work_tree: Path | Callable[[int, str], Path] | None = None,
    dry_run: bool = False,
    claims: bool = True,
    trust_edited: bool = False,
    user: str | Callable[[str], str] = "",
    leaves_out: bool = False,
    sandbox: Mapping[str, Any] | None = None,
) -> PreparedSession:
    """Create a session of the project in `root`, whose servers would start; prune old ones.

    Its agent works in `work_tree`, another worktree of the same repository, or in `root` itself. A
    callable can prepare the worktree once the task is claimed, for the task and the session. If
    `claims_task` requires a claim, and `claims` allows it, the session claims its task for this
    process; the caller then uses `keep_claim` and `end_claim`. A `dry_run` only writes and prunes
    marked folders; a state that other sessions would repair is an error. Programs that the project
    makes the user run go to `ask`, unless they are trusted. `trust_edited` starts servers whose
    files were edited. `user` is how the user takes part, by the profile if that decides (see
    `runtime/session.py`); an agent alone has none. `sandbox` has the rules of
    `runtime/processes/sandbox.py` for the commands of a contained session. `leaves_out` creates a
    session without the untrusted settings of clients, instead of asking. Raises `UsageError` for
    impossible requests, `UntrustedError`, `ClaimedError`, `NothingReadyError`, and `ProjectError`
    for problems to fix first; nothing is left then.
    """
    if dry_run and interrupted(root / FOLDER):
        raise ProjectError(f'a write of "{FOLDER}" was interrupted', 'run "ralphgen regen"')
    finish_interrupted(root / FOLDER)
    basis = basis_of(root, request)
    subject, claim = claimed_subject(basis, request, takes=claims and not dry_run)
    with claim_during_creation(claim):
        identity = "" if claim is None else claim.session_id
        tree = work_tree(subject.task or 0, identity) if callable(work_tree) else work_tree or root
        profile = basis.policy.profile(subject.base)
        part = user(profile) if callable(user) else user
        session = _write_session(
            basis, subject, claim, say, ask, tree, dry_run, trust_edited, part, leaves_out, sandbox
        )
    return replace(session, claim=claim)


def basis_of(root: Path, request: Request) -> Basis:
    """Return the input for the project's sessions; raises `ProjectError` and `UsageError`."""
    project = Project(root, as_served=True)
    known = tuple(kit.key for kit in project.plan.kits)
    for kit in request.kits:
        if kit not in known:
            hint = suggestion(kit, known, "the kits")
            raise UsageError(f'this project has no kit "{kit}"', hint)
    kits = tuple(kit for kit in known if kit in request.kits) if request.kits else known
    return Basis(project, kits)


def claimed_subject(
    basis: Basis, request: Request, *, takes: bool, chance: int = CHANCE
) -> tuple[Subject, TaskClaim | None]:
    """Return the subject of the session, and its claim if it has one.

    Only a session with a claim takes its task. Unless it `takes` one, the next task is the one that
    it would take. `chance` is the number of random bytes in the id of a session that claims a task.
    Raises the errors of `create_session`.
    """
    project = basis.project
    if (request.next or request.task is not None) and project.serves_any_database:
        raise no_tasks(project.facts.kits)
    with project.rows() as rows:
        subject = decide_subject(basis.policy, request, rows)
    _refuse_without_tools(basis, subject)
    if request.next:
        if not claims_task(basis.policy, replace(subject, task=0)):
            text = f'sessions of the recipe "{request.recipe}" do not claim their task'
            raise UsageError(text, "choose one with --task")
        claim = claim_next(project, request, chance) if takes else None
        found = next_task(project, request) if claim is None else claim.task
        with project.rows() as rows:
            named = replace(request, task=found, next=False)
            return decide_subject(basis.policy, named, rows), claim
    task = subject.task
    if task is None or not takes or not claims_task(basis.policy, subject):
        return subject, None
    session_id = new_id(project.root, subject.recipe, subject.subject, chance)
    return subject, claim_task(project, session_id, task)


def _refuse_without_tools(basis: Basis, subject: Subject) -> None:
    """Raise `UsageError` if no tool of the session's kits is in its recipe."""
    policy = basis.policy
    having = [
        name for name in policy.recipes if any(policy.allowed(name, kit) for kit in basis.kits)
    ]
    if subject.base not in having:
        kits = f"kit{'s' * (len(basis.kits) > 1)} " + ", ".join(f'"{kit}"' for kit in basis.kits)
        text = f'the recipe "{one_line(subject.recipe)}" has no tools of the {kits}'
        hint = f"recipes that have tools there: {', '.join(map(one_line, having))}"
        if not having:
            hint = hint_without_tools(basis.project.root)
        raise UsageError(text, hint)


def _write_session(
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
    sandbox: Mapping[str, Any] | None,
) -> PreparedSession:
    """Return the session on a subject, once its files are written and its servers respond."""
    project = basis.project
    root, config = project.root, project.settings
    with project.rows() as rows:
        others = servers_of(subject.discipline, config, rows)
        identity = rows.identity(project.schema.hide)
        words = project_prompts(project, subject, rows)
    run = {subject.discipline: others}
    items = session_items(project, run, words.items, work_tree, trust_edited=trust_edited)
    left = untrusted(root, [item for item in items if item.is_client]) if leaves_out else []
    items = [item for item in items if item not in left]
    unrecorded = filter(None, [ask_trust(project, items, ask)])
    program = server_program(root / FOLDER, None if dry_run else say)
    if not trust_edited:
        refuse_edited(root / FOLDER)  # again, because asking and building take time
    prune_sessions(root, config.sessions.keep_days, dry_runs_only=dry_run)
    shown = subject.recipe, subject.subject
    session_id = new_id(root, *shown) if claim is None else claim.session_id
    context = sessions_folder(root) / session_id / CONTEXT
    options = [*([TRUST_EDITED] if trust_edited else []), "--context", str(context)]
    commands = {kit: (*program, kit, *options) for kit in basis.kits}
    made_for = project_facts(root, work_tree, identity)
    brief = words.facts(config.brief)
    facts = context_facts(basis.policy, subject, basis.kits, session_id, made_for, brief)
    held: dict[str, Any] = {"user": user} if user else {}
    held |= {} if sandbox is None else {"sandbox": sandbox}
    held |= {} if claim is None else {"claim": claim.facts(kept=work_tree != root)}
    rules, more = fixed_rules(root, work_tree, subject.feature, settles=not dry_run)
    wired = partial(_mcp_config, commands, others, run_of_checks(rules))
    digest = make_folder(root, session_id, facts | rules | held, wired, more, dry_run=dry_run)
    served = _all_served(commands, digest, context.parent)
    waits = map(WAITING.format, project.waiting)
    useless = [line for name, line in project.plan.overrides if name == subject.discipline]
    warnings = [*unrecorded, *waits, *useless, *words.warnings]
    warnings += [f"not approved, and left out: {item.shown}" for item in left]
    if SNAPSHOT in more and (earlier := json.loads(more[SNAPSHOT])["earlier"]):
        named = ", ".join(map(one_line, earlier))
        warnings.append(f"an earlier session changed protected files: {named}; {ACCEPT}")
    session = _opened(project, subject, context, digest, served, tuple(others), items, warnings)
    return replace(session, model=words.model, work_tree=work_tree, without_settings=bool(left))


def create_default_context(
    root: Path, request: Request, *, say: Say, ask: Ask, trust_edited: bool = False
) -> tuple[Path, Names]:
    """Write the default context, for servers that are started without one.

    Returns its path, and warnings for users. Raises the errors of `create_session`. The file does
    not contain the folder, so that a project can move.
    """
    session = create_session(
        root, request, say=say, ask=ask, claims=False, trust_edited=trust_edited, user=BY_CLIENT
    )
    facts = json.loads(session.context.read_bytes())
    for fixed in ("project", "brief", "done"):  # a committed file could set these texts
        facts.pop(fixed, None)
    remove(session.folder)
    path = root / FOLDER / DEFAULT_FILE
    refuse_irregular(root / FOLDER, [DEFAULT_FILE])  # a link in a clone may lead anywhere
    put(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    failure = record_items(root, context_items(root))
    return path, (*session.warnings, *filter(None, [failure]))


def _fixed(command: Names, sha256: str) -> Names:
    """Return the command line of a server that takes only the context of this digest."""
    return (*command, "--sha256", sha256)


def _mcp_config(
    commands: Mapping[str, Names],
    others: Mapping[str, Mapping[str, Any]],
    longest: Mapping[str, int],
    sha256: str,
) -> dict[str, Any]:
    """Return the config for a client: the project's servers, then the discipline's.

    `longest` is, by kit, the time limit of calls in seconds, if a client may not expect it.
    """
    own: dict[str, dict[str, Any]] = {}
    for kit, command in commands.items():
        program, *arguments = _fixed(command, sha256)
        own[kit] = {"command": program, "args": arguments}
        if kit in longest:
            own[kit]["timeout"] = 1000 * longest[kit]  # milliseconds, as Claude Code has it
    return {"mcpServers": {**own, **others}}


def run_of_checks(rules: Mapping[str, Any]) -> dict[str, int]:
    """Return how long a call of `run_checks` may take; empty in a project without checks."""
    checks = rules.get("done", {}).get("checks", ())
    return {TASKS: sum(one["timeout"] for one in checks) + MARGIN} if checks else {}


def _opened(
    project: Project,
    subject: Subject,
    context: Path,
    sha256: str,
    served: tuple[Served, ...],
    others: Names,
    items: Sequence[TrustItem],
    warnings: Sequence[str],
) -> PreparedSession:
    config = project.settings
    return PreparedSession(
        root=project.root,
        work_tree=project.root,
        session_id=context.parent.name,
        recipe=subject.recipe,
        profile=project.plan.policy.recipes[subject.base].base or subject.base,
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
        runs=tuple(item.shown for item in items if not item.is_quiet),
        launch=config.launch,
        transcripts=config.sessions.transcripts,
        warnings=tuple(warnings),
    )


def _all_served(commands: Mapping[str, Names], digest: str, folder: Path) -> tuple[Served, ...]:
    """Return the servers' descriptions of themselves; write the brief to the session's folder.

    If a server does not start, the folder is removed.
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
    return served_of(kit, command, said)


def served_of(kit: str, command: Names, said: Mapping[str, Any]) -> Served:
    """Return a server by its own description, as `--describe` prints it."""
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
