"""The commands that start the project's server: to serve a client, and to call one tool of it."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_recipes, complete_tools
from ralphgen.terminal.app import App, Project, TrustEdited

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
