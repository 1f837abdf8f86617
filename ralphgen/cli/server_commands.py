"""The commands that start a server or call one of its tools; its workers, and the board."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_recipes, complete_tools, complete_workers
from ralphgen.errors import UsageError, plain
from ralphgen.terminal.app import App, Json, Project, Quiet, TrustEdited
from ralphgen.terminal.console import print_json, progress, say

app = App()


@app.command(example="ralphgen serve ralph")
def serve(
    kits: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIT]...", help="Kit to serve."),
    ] = None,
    context: Annotated[str, typer.Option(metavar="FILE", help="Context file of the session.")] = "",
    sha256: Annotated[
        str, typer.Option(metavar="HEX", help="Expected SHA-256 of the context file.")
    ] = "",
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP with the settings in [http].")
    ] = False,
    host: Annotated[str, typer.Option(help="HTTP address to listen on.")] = "",
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, metavar="N", help="HTTP port.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="Create a session that ends with the server.")
    ] = "",
    task: Annotated[int | None, typer.Option(metavar="N", help="Id of the session's task.")] = None,
    next_: Annotated[bool, typer.Option("--next", help="Claim the next ready task.")] = False,
    feature: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the session's feature.")
    ] = "",
    discipline: Annotated[str, typer.Option(metavar="NAME", help="Name of the agent role.")] = "",
    structured_output: Annotated[
        bool, typer.Option("--structured-output", help="Return structured content too.")
    ] = False,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
) -> None:
    """Run the MCP server over stdio or HTTP."""
    from ralphgen.cli.serve import serve as run_server
    from ralphgen.project.lookup import STRUCTURED

    named = ["--context", context, "--sha256", sha256] if context else []
    listening = ["--host", host] if host else []
    listening += ["--port", str(port)] if port is not None else []
    more = [*(["--http"] if http else []), *listening]
    more += [STRUCTURED] if structured_output else []
    more += [f"--project={project}"] if project != Path() else []
    trusting = ["--trust-edited"] if trust_edited else []
    values = {"--recipe": recipe, "--feature": feature, "--discipline": discipline}
    own = [f"{name}={value}" for name, value in values.items() if value]
    own += ([f"--task={task}"] if task is not None else []) + (["--next"] if next_ else [])
    raise typer.Exit(run_server([*(kits or []), *more, *own, *trusting, *named]))


@app.command(example="ralphgen call ralph:set_task_status id=7 status=done")
def call(
    tool: Annotated[
        str,
        typer.Argument(
            metavar="KIT:TOOL", help="Tool to call, as KIT:TOOL.", autocompletion=complete_tools
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help='Arguments ("-" reads JSON from stdin).'),
    ] = None,
    as_json: Annotated[
        str, typer.Option("--json", metavar="OBJECT", help="Arguments as a JSON object.")
    ] = "",
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Recipe of the session.", autocompletion=complete_recipes
        ),
    ] = "manual",
    task: Annotated[int | None, typer.Option(metavar="N", help="Id of the session's task.")] = None,
    feature: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the session's feature.")
    ] = "",
    discipline: Annotated[str, typer.Option(metavar="NAME", help="Name of the agent role.")] = "",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
) -> None:
    """Call one tool and print its result.

    Exits with 1 if the tool refuses. Values of string arguments are plain text; all
    others are JSON.
    """
    from ralphgen.cli.call import call as call_tool

    named = {
        "--json": as_json,
        "--recipe": recipe,
        "--task": task,
        "--feature": feature,
        "--discipline": discipline,
        "--project": project,
    }
    options = [f"{name}={value}" for name, value in named.items() if value not in {"", None}]
    trusting = ["--trust-edited"] if trust_edited else []
    raise typer.Exit(call_tool([tool, *options, *trusting, *(arguments or ())]))


worker = App(help="Let other machines take tasks without the database.")
app.add_typer(worker, name="worker")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the new worker.")]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the worker.", autocompletion=complete_workers),
]
Merge = Annotated[bool, typer.Option("--merge", help="Let the worker run the merge queue.")]
Ttl = Annotated[str, typer.Option(metavar="TIME", help="Lifetime of the token, at most 24h.")]


@worker.command(example="ralphgen worker add mac-2")
def add(
    name: NewName,
    merge: Merge = False,
    ttl: Ttl = "24h",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Add a worker and print its token, which is shown only now."""
    from ralphgen.loop.run import parse_duration
    from ralphgen.sessions.workers import add_worker

    tell = progress(quiet)
    seconds = int(parse_duration(ttl))
    root = _root(project, "add")
    token = add_worker(root, name, seconds, merge=merge, say=tell, trust_edited=trust_edited)
    tell(f"added worker {name}, valid for {ttl}; there, run:")
    tell("RALPH_WORKER_TOKEN=TOKEN ralphgen loop --server URL --worktrees")
    print(token)


@worker.command(name="list", example="ralphgen worker list")
def list_(project: Project = Path(), as_json: Json = False) -> None:
    """List the workers with the state of their tokens."""
    from ralphgen.sessions.workers import list_workers

    found = [one.as_json() for one in list_workers(_root(project, "list"))]
    if as_json:
        print_json(found)
        return
    for one in found:
        merges = "merges" if one["merge"] else ""
        seen = f"seen {one['seen']} on {one['host']}" if one["seen"] else "not seen"
        facts = (one["name"], one["state"], f"until {one['expires']}", seen, merges)
        print(plain("  ".join(str(fact) for fact in facts if fact)))
    if not found:
        say("no workers")


@worker.command(example="ralphgen worker revoke mac-2")
def revoke(name: Name, project: Project = Path()) -> None:
    """Revoke a worker's token and end its sessions."""
    from ralphgen.sessions.workers import revoke_worker

    ended = revoke_worker(_root(project, "revoke"), name)
    text = f"revoked worker {plain(name)}"
    print(f"{text} and ended {len(ended)} session{'s' * (len(ended) != 1)}")


def _root(project: Path, command: str) -> Path:
    """Return the project of a command that agents may not run."""
    from ralphgen.project.root import project_place
    from ralphgen.terminal.console import refuse_agents

    refuse_agents(f"worker {command}")
    return project_place(project).root


STANDARD_OUTPUT = "-"
Export = Annotated[
    str,
    typer.Option(metavar="FILE", help='Write the board into one HTML file ("-": standard output).'),
]
WithSessions = Annotated[bool, typer.Option("--sessions", help="Include sessions.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the URL without opening a browser.")]


@app.command(example="ralphgen board --export board.html")
def board(
    project: Project = Path(),
    no_open: NoOpen = False,
    export: Export = "",
    sessions: WithSessions = False,
    quiet: Quiet = False,
) -> None:
    """Open the project board in a browser.

    The printed URL works in one browser and gives it full control of the board. The output of
    --export is reproducible, except with --sessions.
    """
    from ralphgen.project.root import project_root

    root = project_root(project)
    if export:
        _export(root, export, sessions=sessions, quiet=quiet)
    elif sessions:
        raise UsageError('"--sessions" needs "--export"', "ralphgen board --export FILE --sessions")
    else:
        _serve(root, browse=not no_open)


def _serve(root: Path, *, browse: bool) -> None:
    from ralphgen.board.app import serve
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("board")  # an agent could act as the user there
    hints = iter(["press Ctrl-C to stop"])  # said once, below the first address

    def announce(address: str) -> None:
        print(address, flush=True)
        for hint in hints:
            say(hint)

    serve(root, announce=announce, browse=browse)


def _export(root: Path, file: str, *, sessions: bool, quiet: bool) -> None:
    from ralphgen.board.project import report
    from ralphgen.files import put

    text = report(root, sessions=sessions)
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    put(Path(file), text)
    progress(quiet)(f"{file}: {len(text.encode()):,} bytes")
