"""The command line as a whole: its name, its help and the options before a command."""

from typing import Annotated

import typer

from ralphgen import __version__

app = typer.Typer(
    name="ralphgen",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Writes a project's own MCP servers from its database schema, disciplines and recipes.",
    epilog="Start with: [bold]ralphgen init[/bold]",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ralphgen {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""
