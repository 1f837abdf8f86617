"""The commands on agent sessions: making, listing and launching them, and clients' own configs."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.cli.app import app
from ralphgen.errors import RalphgenError, Say, UsageError
from ralphgen.sessions.model import PreparedSession, Request
from ralphgen.terminal.console import print_json, progress, say
from ralphgen.terminal.options import Folder, Json, Quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.launch.command import LaunchOptions

Task = Annotated[int | None, typer.Option(metavar="N", help="The task that it is about.")]
Feature = Annotated[str, typer.Option(metavar="NAME", help="The feature that it is about.")]
Discipline = Annotated[
    str,
    typer.Option(metavar="NAME", help="The agent's discipline; in discuss, the one it is about."),
]
Kits = Annotated[
    list[str] | None,
    typer.Option("--kit", metavar="NAME", help="A kit to serve; repeatable. All if left out."),
]
Project = Annotated[
    Path, typer.Option("--project", metavar="PATH", help="The project's folder, or one inside it.")
]


Recipe = Annotated[str, typer.Argument(help="The kind of session.")]
Default = Annotated[
    bool, typer.Option("--default", help="For clients that name no session of their own.")
]
Prompt = Annotated[
    str, typer.Argument(help="What to say first; - reads it. The recipe's own if left out.")
]
Model = Annotated[str, typer.Option(metavar="NAME", help="The model to use.")]
MaxTurns = Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many turns.")]
Timeout = Annotated[
    float | None, typer.Option(min=1, metavar="SECONDS", help="Stop it after so long.")
]
Printing = Annotated[
    bool, typer.Option("--print", help="Without a terminal, also for conversations.")
]
Raw = Annotated[bool, typer.Option("--raw", help="Print the stream of JSON as it is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the command line, start nothing.")]
Client = Annotated[str, typer.Option(help="claude, cursor, vscode, codex, gemini or desktop.")]
Write = Annotated[bool, typer.Option("--write", help="Merge it into the client's own file.")]


@app.command(epilog="Example: [bold]ralphgen session task_execution --task 7 --json[/bold]")
def session(
    recipe: Annotated[
        str, typer.Argument(help='The kind of session, or "list" for those that there are.')
    ],
    task: Task = None,
    feature: Feature = "",
    discipline: Discipline = "",
    kit: Kits = None,
    default: Default = False,
    project: Project = Path(),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a session: compute what it may see, write its files, and print its MCP config's path."""
    from ralphgen.project.root import project_root

    root, tell = project_root(project), progress(quiet)
    request = Request(recipe, task, feature, discipline, tuple(kit or ()))
    if recipe == "list":
        _list_sessions(root, request, as_json=as_json)
    elif default:
        _make_default(root, request, as_json=as_json, tell=tell)
    else:
        _make_session(root, request, as_json=as_json, tell=tell)


@app.command(
    epilog="Example: [bold]ralphgen launch task_execution --task 7 -- --effort high[/bold]"
)
def launch(
    context: typer.Context,
    recipe: Recipe,
    prompt: Prompt = "",
    task: Task = None,
    feature: Feature = "",
    discipline: Discipline = "",
    kit: Kits = None,
    model: Model = "",
    max_turns: MaxTurns = None,
    timeout: Timeout = None,
    printing: Printing = False,
    raw: Raw = False,
    dry_run: DryRun = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Start Claude Code in a session of its own; what stands behind -- is passed on to it.

    task_execution, opus_review and enrichment run to their end and print what happens; the others
    are conversations in the terminal.
    """
    from ralphgen.launch.command import LaunchOptions, launch_command, launch_settings, prints
    from ralphgen.project.root import project_root
    from ralphgen.sessions.store import remove

    root, tell = project_root(project), progress(quiet)
    made = _open(root, Request(recipe, task, feature, discipline, tuple(kit or ())), tell)
    options = LaunchOptions(
        prompt=sys.stdin.read() if prompt == "-" else prompt or made.prompt,
        printing=printing or prints(made.profile),
        model=model,
        max_turns=max_turns,
        passed_through=context.obj,
    )
    try:
        command = launch_command(made, launch_settings(root), options)
        if dry_run:
            print(shlex.join(command))
            return
        code = _run(made, command, options, timeout=timeout, raw=raw)
    except RalphgenError:
        remove(made.folder)  # nothing runs in it
        raise
    raise typer.Exit(code)


@app.command(epilog="Example: [bold]ralphgen config --client cursor --write[/bold]")
def config(client: Client = "claude", write: Write = False, path: Folder = Path()) -> None:
    """Print what an MCP client has to be told to start the project's servers."""
    from ralphgen.clients.forms import CLIENTS, client_file, client_text, write_client
    from ralphgen.kits.registry import KITS
    from ralphgen.project.inspect import inspect_project
    from ralphgen.project.root import project_root

    root = project_root(path)
    kits = inspect_project(root, KITS).kits
    if not write:
        sys.stdout.write(client_text(client, root, kits))
        return
    changed = write_client(client, root, kits)
    say(f"{'wrote' if changed else 'nothing to change in'} {client_file(client, root)}")
    if CLIENTS[client].note:
        say(f"note: {CLIENTS[client].note}")


def _list_sessions(root: Path, request: Request, *, as_json: bool) -> None:
    from ralphgen.cli.tables import show_sessions
    from ralphgen.sessions.store import stored_sessions

    if request != Request("list"):
        raise UsageError('"ralphgen session list" takes no row and no kit', "leave them out")
    kept = stored_sessions(root)
    if as_json:
        print_json([one.as_json() for one in kept])
    else:
        show_sessions(kept)


def _make_default(root: Path, request: Request, *, as_json: bool, tell: Say) -> None:
    from ralphgen.sessions.create import create_default_context

    path, warnings = create_default_context(root, request, say=tell)
    for warning in warnings:
        say(f"warning: {warning}")
    if as_json:
        print_json({"context": str(path), "warnings": list(warnings)})
    else:
        print(path)


def _make_session(root: Path, request: Request, *, as_json: bool, tell: Say) -> None:
    from ralphgen.launch.command import default_command
    from ralphgen.sessions.model import session_facts, session_summary

    made = _open(root, request, tell)
    if as_json:
        print_json(session_facts(made, default_command(made, root)))
        return
    for line in session_summary(made):
        tell(line)
    print(made.mcp_config)


def _open(root: Path, request: Request, tell: Say) -> PreparedSession:
    """Return the session; say its warnings, even where quiet is wanted."""
    from ralphgen.sessions.create import create_session

    made = create_session(root, request, say=tell)
    for warning in made.warnings:
        say(f"warning: {warning}")
    return made


def _run(
    made: PreparedSession,
    command: "Sequence[str]",
    options: "LaunchOptions",
    *,
    timeout: float | None,
    raw: bool,
) -> int:
    """Return the exit code of Claude Code."""
    from ralphgen.launch.runner import run_printing, run_terminal

    if not options.printing:
        return run_terminal(made, command)
    prompt = options.prompt
    return run_printing(made, command, prompt, timeout=timeout, raw=raw, out=sys.stdout, say=say)
