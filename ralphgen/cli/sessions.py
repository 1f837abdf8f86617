"""The commands on agent sessions: create, list, describe and end them, and `launch`."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ralphgen.cli.completion import (
    complete_agents,
    complete_disciplines,
    complete_features,
    complete_recipes,
    complete_tasks,
)
from ralphgen.cli.recipes import RecipeCommand
from ralphgen.cli.trust import confirm_trust
from ralphgen.errors import ProjectError, RalphgenError, Say, UsageError, harmless, plain
from ralphgen.runtime.session import BY_CLIENT, BY_TERMINAL
from ralphgen.sessions.decide import Request, no_tasks
from ralphgen.terminal.app import App, Json, Project, Quiet, Sandboxed, TrustEdited, help_hint
from ralphgen.terminal.console import print_json, progress, refuse_agents, say

if TYPE_CHECKING:
    from ralphgen.agents.agent import Agent, LaunchOptions
    from ralphgen.agents.sandbox import Sandbox
    from ralphgen.project.root import ProjectPlace
    from ralphgen.sessions.model import Brief, PreparedSession


app = App()


Recipe = Annotated[
    str, typer.Argument(help="Recipe of the session.", autocompletion=complete_recipes)
]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="Id of the session.")]
Task = Annotated[
    int | None,
    typer.Option(metavar="N", help="Id of the task.", autocompletion=complete_tasks),
]
Next = Annotated[
    bool, typer.Option("--next", help="Claim the next ready task. Exits with 8 if there is none.")
]
Feature = Annotated[
    str,
    typer.Option(metavar="NAME", help="Name of the feature.", autocompletion=complete_features),
]
Discipline = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Name of the agent role; in discuss, of the role to discuss.",
        autocompletion=complete_disciplines,
    ),
]
Kits = Annotated[
    list[str] | None,
    typer.Option("--kit", metavar="NAME", help="Kit to serve (default: all). Repeatable."),
]
Default = Annotated[
    bool, typer.Option("--default", help="Use this session for clients without one.")
]
Token = Annotated[
    bool, typer.Option("--token", help="Print an HTTP token instead of writing files.")
]
Login = Annotated[
    bool,
    typer.Option("--login", help="Print a DSN with only the session's privileges (PostgreSQL)."),
]
Ttl = Annotated[
    str,
    typer.Option(metavar="TIME", help="Lifetime of the token or login (default: 8h, at most 24h)."),
]
CLAIMING = "task_execution"  # the recipe of a session that claims a task
STILL_OPEN = (
    "its login still has connections or rights, and an open transaction continues; the creator of "
    "the login can revoke it with RALPH_ADMIN_DSN"
)


session = App(help="Create, list and end sessions for other MCP clients.")
app.add_typer(session, name="session")


@session.command(cls=RecipeCommand, example="ralphgen session create task_execution --task 7")
def create(
    recipe: Recipe,
    task: Task = None,
    next_: Next = False,
    feature: Feature = "",
    discipline: Discipline = "",
    kit: Kits = None,
    default: Default = False,
    token: Token = False,
    login: Login = False,
    ttl: Ttl = "",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Create a session and print the path of its MCP config."""
    place, tell = _place(project, "create"), progress(quiet)
    root = place.root
    request = Request(recipe, task, feature, discipline, tuple(kit or ()), next=next_)
    if ttl and not (token or login):
        raise UsageError('"--ttl" requires "--token" or "--login"', "leave it out")
    ttl = ttl or "8h"
    if token:
        _print_token(root, request, ttl, as_json=as_json, tell=tell, trust_edited=trust_edited)
    elif login:
        _make_with_login(place, request, ttl, as_json=as_json, tell=tell, trust_edited=trust_edited)
    elif default:
        _make_default(root, request, as_json=as_json, tell=tell, trust_edited=trust_edited)
    else:
        make_session(place, request, as_json=as_json, tell=tell, trust_edited=trust_edited)


@session.command(name="list", example="ralphgen session list")
def list_(project: Project = Path(), as_json: Json = False) -> None:
    """List the sessions with task, age, result, turns and cost."""
    from ralphgen.cli.tables import show_sessions
    from ralphgen.ledger.record import record_as_json, recorded_sessions
    from ralphgen.sessions.store import stored_sessions

    root = _place(project, "list").root
    kept = stored_sessions(root)
    records = recorded_sessions(root, [one.session_id for one in kept])
    if as_json:
        print_json([one.as_json() | record_as_json(records.get(one.session_id)) for one in kept])
    else:
        show_sessions(kept, records)


@session.command(example="ralphgen session end yap-20260210T120000Z-1a2b")
def end(session_id: SessionId, project: Project = Path(), as_json: Json = False) -> None:
    """End an idle session and release its task."""
    from ralphgen.exchange.branch import keep_rows
    from ralphgen.project.root import database_place
    from ralphgen.sessions.claims import task_state
    from ralphgen.sessions.credentials import revoke_login
    from ralphgen.sessions.end import end_session

    root = _place(project, "end").root
    ended = end_session(root, session_id)
    keep_rows(root, say)
    database = database_place(root)
    if database is not None and revoke_login(database, session_id) is False:
        say(f"warning: {STILL_OPEN}")
    if as_json:
        print_json(ended.session.as_json())
        return
    state = "" if ended.task is None else task_state(root, ended.task)
    again = f"; task {ended.task} is {state}{' again' * (state == 'ready')}" if state else ""
    print(f"ended session {plain(ended.session.session_id)}{again}")


@session.command(example="ralphgen session revoke yap-20260210T120000Z-1a2b3c4d5e6f7a8b")
def revoke(session_id: SessionId, project: Project = Path()) -> None:
    """Revoke the tokens and login of a session; release its task.

    Exits with 1 if no session with this id is on record: check the id.
    """
    from ralphgen.exchange.branch import keep_rows
    from ralphgen.ledger.record import read_entries
    from ralphgen.ledger.tables import read_state
    from ralphgen.project.root import database_place
    from ralphgen.sessions.credentials import release_session, revoke_login, revoke_session

    root = _place(project, "revoke").root
    database = database_place(root)
    is_gone = None if database is None else revoke_login(database, session_id)
    if is_gone is not None:
        release_session(root, session_id)
        keep_rows(root, say)
        print(f"ended session {plain(session_id)} and revoked its login")
        if not is_gone:
            say(f"warning: {STILL_OPEN}")
        return
    revoke_session(root, session_id)
    keep_rows(root, say)
    print(f"revoked all tokens of session {plain(session_id)}")
    if read_state(root).version is not None:
        read_entries(root, session=session_id, limit=1)  # refuses an id that is not on record


def _place(project: Path, command: str) -> "ProjectPlace":
    """Return the project of a command that agents may not run."""
    from ralphgen.project.root import project_place
    from ralphgen.terminal.console import refuse_agents

    refuse_agents(f"session {command}")
    return project_place(project)


def _print_token(
    root: Path, request: Request, ttl: str, *, as_json: bool, tell: Say, trust_edited: bool
) -> None:
    from ralphgen.agents.launch import record_begin
    from ralphgen.loop.run import parse_duration
    from ralphgen.sessions.credentials import session_token

    seconds = int(parse_duration(ttl))
    session_id, token, subject = session_token(
        root, request, seconds, say=tell, trust_edited=trust_edited
    )
    record_begin(root, session_id, subject, say)
    if as_json:
        print_json({"session_id": session_id, "token": token, "seconds": seconds})
        return
    tell(f"created session {session_id}, valid for {ttl}")
    print(token)


def _make_with_login(
    place: "ProjectPlace",
    request: Request,
    ttl: str,
    *,
    as_json: bool,
    tell: Say,
    trust_edited: bool,
) -> None:
    """Make a session, and a login to PostgreSQL for it; print the login's DSN."""
    from ralphgen.agents.launch import open_record
    from ralphgen.loop.run import parse_duration
    from ralphgen.project.root import ADMIN_DSN, database_place
    from ralphgen.sessions.claims import hand_over
    from ralphgen.sessions.credentials import LONGEST, make_login
    from ralphgen.sessions.end import end_session

    database = database_place(place.root)
    if database is None:
        raise UsageError("a project on SQLite has no logins", 'leave "--login" out')
    seconds = int(parse_duration(ttl))
    if not 0 < seconds <= LONGEST:
        raise UsageError("a login is valid for at most a day", "use 24h or less")
    made = open_session(place, request, tell, trust_edited=trust_edited)
    open_record(made, say)
    if made.claim is not None:
        hand_over(made.claim)
    try:
        login = make_login(database, made, seconds)
    except ProjectError:
        end_session(place.root, made.session_id)
        raise
    if as_json:
        facts = {"session_id": made.session_id, "mcp_config": str(made.mcp_config)}
        sql = None if login.made else login.sql
        print_json({**facts, "dsn": login.dsn, "sql": sql, "seconds": seconds})
        return
    tell(f"created session {made.session_id}, valid for {ttl}: {made.mcp_config}")
    if not login.made:
        advice = "a database user who can create roles must run this first"
        say(f"{ADMIN_DSN} is not set: {advice}:\n{login.sql}")
    print(login.dsn)


def _make_default(
    root: Path, request: Request, *, as_json: bool, tell: Say, trust_edited: bool
) -> None:
    from ralphgen.sessions.create import create_default_context

    path, warnings = create_default_context(
        root, request, say=tell, ask=confirm_trust, trust_edited=trust_edited
    )
    for warning in warnings:
        say(f"warning: {plain(warning)}")
    if as_json:
        print_json({"context": str(path), "warnings": list(warnings)})
    else:
        tell(f'clients without a session now use "{plain(request.recipe)}"')
        print(path)


def make_session(
    place: "ProjectPlace", request: Request, *, as_json: bool, tell: Say, trust_edited: bool
) -> None:
    """Make a session, which holds its task for whoever starts it, and print it."""
    from ralphgen.agents.adapters import default_command
    from ralphgen.agents.launch import open_record
    from ralphgen.sessions.claims import NothingReadyError, hand_over
    from ralphgen.sessions.model import session_facts, session_summary

    try:
        made = open_session(place, request, tell, trust_edited=trust_edited)
    except NothingReadyError:
        if as_json:
            print_json(None)
        raise
    open_record(made, say)
    if made.claim is not None:
        hand_over(made.claim)
    if as_json:
        print_json(session_facts(made, default_command(made)))
        return
    for line in session_summary(made):
        tell(line)
    print(made.mcp_config)


def open_session(
    place: "ProjectPlace",
    request: Request,
    tell: Say,
    *,
    dry_run: bool = False,
    trust_edited: bool,
    user: str | Callable[[str], str] = BY_CLIENT,
    sandbox: Mapping[str, Any] | None = None,
) -> "PreparedSession":
    """Return the session, which works in the place's work tree; say its warnings in any case.

    It is for the user's own client, unless `user` says otherwise; `user` and `sandbox` are as in
    `create_session`.
    """
    from ralphgen.emit import warn_if_outdated
    from ralphgen.sessions.create import create_session

    warn_if_outdated(place.root, say, dry_run=dry_run)
    made = create_session(
        place.root,
        request,
        say=tell,
        ask=confirm_trust,
        work_tree=place.work_tree,
        dry_run=dry_run,
        trust_edited=trust_edited,
        user=user,
        sandbox=sandbox,
    )
    for warning in made.warnings:
        say(f"warning: {plain(warning)}")
    return made


__all__ = ["app", "brief"]


@session.command(cls=RecipeCommand, example="ralphgen session brief task_execution --task 7")
def brief(
    recipe: Recipe,
    task: Task = None,
    next_: Next = False,
    feature: Feature = "",
    discipline: Discipline = "",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Print the brief that a session would start with."""
    from ralphgen.project.root import project_place
    from ralphgen.sessions.store import remove

    place = project_place(project)
    request = Request(recipe, task, feature, discipline, next=next_)
    made = open_session(place, request, say, dry_run=True, trust_edited=trust_edited)
    remove(made.folder)
    found = made.brief
    if found is None:
        raise no_tasks(served.kit for served in made.served)
    if as_json:
        facts = {
            "recipe": made.recipe,
            "system": found.system,
            "task": found.task,
            "characters": found.characters,
            "max_characters": found.most,
            "sections": list(found.sections),
        }
        print_json(facts)
        return
    parts = (("System", found.system), ("Task", found.task))
    print("\n\n".join(f"# {name} part\n\n{harmless(text)}" for name, text in parts if text))
    for line in _sizes(found):
        say(line)


def _sizes(brief: "Brief") -> list[str]:
    """Return the size of each section, part by part, in lines for people."""
    lines: list[str] = []
    for part, text in (("system", brief.system), ("task", brief.task)):
        lines.append(f"{part} part: {len(text):,} characters")
        for section in brief.sections:
            if section["part"] == part and section["title"]:
                cut = f", cut: see {section['cut']}" if "cut" in section else ""
                lines.append(f"  {section['characters']:>7,}  {plain(section['title'])}{cut}")
    if brief.characters > brief.most:
        text = f"{brief.characters - brief.most:,} more than max_characters of [brief] allows"
        lines.append(f"warning: {text}: the rest is never cut")
    return lines


Prompt = Annotated[
    str, typer.Argument(help='First message (default: from the recipe; "-" reads stdin).')
]
AgentName = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="claude, codex, gemini or a name from [loop.agents].",
        autocompletion=complete_agents,
    ),
]
Model = Annotated[str, typer.Option(metavar="NAME", help="The model to use.")]
MaxTurns = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Stop after this many turns.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=1, metavar="SECONDS", help="Stop the agent after this many seconds."),
]
Printing = Annotated[bool, typer.Option("--print", help="Run without a terminal and print events.")]
Raw = Annotated[bool, typer.Option("--raw", help="Print the agent's JSON stream unchanged.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the command line without starting the agent.")
]


@app.command(
    cls=RecipeCommand,
    example="ralphgen launch --task 7 -- --effort high",
)
def launch(
    context: typer.Context,
    recipe: Recipe = "",
    prompt: Prompt = "",
    task: Task = None,
    next_: Next = False,
    feature: Feature = "",
    discipline: Discipline = "",
    kit: Kits = None,
    agent: AgentName = "claude",
    model: Model = "",
    max_turns: MaxTurns = None,
    timeout: Timeout = None,
    printing: Printing = False,
    raw: Raw = False,
    sandbox: Sandboxed = False,
    dry_run: DryRun = False,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Run one agent session.

    Arguments after -- go to the agent. --task and --next imply task_execution. task_execution,
    opus_review and enrichment print events until they end; the other recipes are conversations in
    the terminal.
    """
    from ralphgen.agents.adapters import find_agent
    from ralphgen.agents.agent import LaunchOptions, prints
    from ralphgen.agents.launch import find_program
    from ralphgen.agents.sandbox import open_sandbox
    from ralphgen.kits.project import Project as Inspected
    from ralphgen.project.root import project_place
    from ralphgen.sessions.model import approved_lines
    from ralphgen.sessions.store import CONTAINED, NOT_CONTAINED

    refuse_agents("launch")
    place, tell = project_place(project), progress(quiet)
    project_facts = Inspected(place.root)
    works = find_agent(agent, project_facts.settings)
    if recipe == "" and task is None and not next_:
        raise UsageError("missing argument RECIPE", help_hint("ralphgen launch"))
    if not dry_run:
        find_program(works)  # before anything is created
    kits = tuple(kit or ())
    request = Request(recipe or CLAIMING, task, feature, discipline, kits, next=next_)

    def user(profile: str) -> str:
        """Return how the user takes part: agents of the settings are their own clients."""
        talks = works.converses and not printing and not prints(profile)
        return BY_TERMINAL if talks and os.isatty(0) and os.isatty(1) else ""

    with open_sandbox(project_facts, say, asked=sandbox) as around:
        rules = None if around is None else around.rules
        made = open_session(
            place,
            request,
            tell,
            dry_run=dry_run,
            trust_edited=trust_edited,
            user=user,
            sandbox=rules,
        )
        for line in approved_lines(made):
            tell(line)
        tell(NOT_CONTAINED if around is None else CONTAINED)
        for line in works.lacks:
            say(f"note: {plain(line)}")
        options = LaunchOptions(
            prompt=sys.stdin.read() if prompt == "-" else prompt or made.prompt,
            printing=printing or works.prints(made),
            model=model,
            max_turns=max_turns,
            passed_through=context.obj,
        )
        if dry_run:
            _print_command(made, works, options)
            return
        code = _launched(made, works, options, around, timeout=timeout, raw=raw, tell=tell)
    raise typer.Exit(code)


def _print_command(made: "PreparedSession", agent: "Agent", options: "LaunchOptions") -> None:
    """Print the command line of the agent, with the variables that it needs."""
    from ralphgen.sessions.store import remove

    try:
        call = agent.call(made, options)
        variables = [f"{name}={value}" for name, value in call.variables.items()]
        print(shlex.join([*(["env", *variables] if variables else []), *call.argv]))
    except RalphgenError:
        remove(made.folder)
        raise


def _launched(
    made: "PreparedSession",
    agent: "Agent",
    options: "LaunchOptions",
    sandbox: "Sandbox | None",
    *,
    timeout: float | None,
    raw: bool,
    tell: Say,
) -> int:
    """Run the agent, release its task, print the result, and return the exit code."""
    from ralphgen.agents.launch import last_lines, launch_session, line_writer
    from ralphgen.exchange.branch import keep_rows
    from ralphgen.sessions.claims import NOT_MADE, end_claim, keep_claim
    from ralphgen.sessions.store import remove

    try:
        out = line_writer(sys.stdout, raw=raw)
        with keep_claim(made.claim) as lost:
            end = launch_session(
                made,
                agent,
                options,
                timeout=timeout,
                out=out,
                say=say,
                lost=lost,
                sandbox=sandbox,
            )
    except RalphgenError:
        end_claim(made, NOT_MADE)
        remove(made.folder)  # nothing runs in it
        raise
    if made.claim is not None:
        try:
            again = bool(end.comment)
            status = end_claim(made, end.outcome.word, end.comment, reopens=again)
            end = replace(end, status=status)
        except ProjectError as error:
            say(f"warning: {error}")
    keep_rows(made.root, say)
    for line in last_lines(made, end):
        tell(line)
    if end.fault is not None:
        say(f"error: {end.fault}")
    return end.outcome.exit_code
