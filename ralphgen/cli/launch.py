"""The command `launch`: runs an agent in a new session."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.cli.completion import complete_agents
from ralphgen.cli.recipes import RecipeCommand
from ralphgen.cli.sessions import (
    CLAIMING,
    Discipline,
    Feature,
    Kits,
    Next,
    Recipe,
    Task,
    open_session,
)
from ralphgen.errors import ProjectError, RalphgenError, Say, UsageError, plain
from ralphgen.runtime.session import BY_TERMINAL
from ralphgen.sessions.decide import Request
from ralphgen.terminal.app import App, Project, Quiet, Sandboxed, TrustEdited, help_hint
from ralphgen.terminal.console import progress, refuse_agents, say

if TYPE_CHECKING:
    from ralphgen.agents.agent import Agent, LaunchOptions
    from ralphgen.agents.sandbox import Sandbox
    from ralphgen.sessions.model import PreparedSession

app = App()

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
