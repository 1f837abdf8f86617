"""Commands that take a kind of session: without one, and in their help, they list what there is."""

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ralphgen.errors import RalphgenError, plain


class RecipeCommand(TyperCommand):
    """A command whose first argument is a kind of session."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the kinds of session where nothing is asked for, and end with 2.

        A shell that completes a command line asks for nothing.
        """
        if not args and not ctx.resilient_parsing:
            show_recipes(f"usage: ralphgen {self.name} RECIPE, which is one of", to_stderr=True)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Add the kinds of session to the help."""
        super().format_help(ctx, formatter)
        show_recipes("The kinds of session:")


def show_recipes(title: str, *, to_stderr: bool = False) -> None:
    """Print the kinds of session that there are here, each with its sentence."""
    from rich.table import Table

    from ralphgen.cli.row_tables import page_console
    from ralphgen.project.root import project_root
    from ralphgen.sessions.recipes import recipe_sentences

    try:
        root = project_root(Path())
    except RalphgenError:
        root = None
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, sentence in recipe_sentences(root).items():
        table.add_row(f" {plain(name)}", plain(sentence))
    console = page_console(to_stderr=to_stderr)
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)
