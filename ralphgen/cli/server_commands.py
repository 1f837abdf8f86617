"""The commands that start the project's server: to serve a client, and to call one tool of it."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_recipes, complete_tools
from ralphgen.terminal.app import App
from ralphgen.terminal.options import TrustEdited

app = App()


@app.command(example="ralphgen serve ralph")
def serve(
    kits: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIT]...", help="The kit to serve."),
    ] = None,
    context: Annotated[str, typer.Option(metavar="FILE", help="The context of a session.")] = "",
    sha256: Annotated[str, typer.Option(metavar="HEX", help="What its digest must be.")] = "",
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP, as [http] says.")] = False,
    host: Annotated[str, typer.Option(help="Where to listen over HTTP.")] = "",
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, metavar="N", help="The port of HTTP.")
    ] = None,
    recipe: Annotated[
        str, typer.Option(metavar="NAME", help="Make a session that ends with the server.")
    ] = "",
    task: Annotated[int | None, typer.Option(metavar="N", help="The session's task.")] = None,
    next_: Annotated[bool, typer.Option("--next", help="The session takes the next task.")] = False,
    feature: Annotated[str, typer.Option(metavar="NAME", help="The session's feature.")] = "",
    discipline: Annotated[str, typer.Option(metavar="NAME", help="The agent's discipline.")] = "",
    trust_edited: TrustEdited = False,
) -> None:
    """Run the server of the project around the working directory, on standard input and output."""
    from ralphgen.cli.serve import serve as run_server

    named = ["--context", context, "--sha256", sha256] if context else []
    listening = ["--host", host] if host else []
    listening += ["--port", str(port)] if port is not None else []
    more = [*(["--http"] if http else []), *listening]
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
            metavar="KIT:TOOL", help="The tool, and whose it is.", autocompletion=complete_tools
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments; - reads them as JSON."),
    ] = None,
    as_json: Annotated[str, typer.Option("--json", metavar="OBJECT", help="Its arguments.")] = "",
    recipe: Annotated[
        str,
        typer.Option(metavar="NAME", help="The kind of session.", autocompletion=complete_recipes),
    ] = "manual",
    task: Annotated[int | None, typer.Option(metavar="N", help="The session's task.")] = None,
    feature: Annotated[str, typer.Option(metavar="NAME", help="The session's feature.")] = "",
    discipline: Annotated[str, typer.Option(metavar="NAME", help="The agent's discipline.")] = "",
    trust_edited: TrustEdited = False,
    project: Annotated[
        Path, typer.Option(metavar="PATH", help="The project's folder, or one inside it.")
    ] = Path(),
) -> None:
    """Call a tool of any kit, and print its answer; exit 1 where it refuses.

    A value is read as the tool's schema has it: texts as they are, all else as JSON.
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
