"""Commands that take a recipe: without one, and in their help, they list the recipes."""

from pathlib import Path
from typing import Any

import typer

from ralphgen.errors import RalphgenError, plain
from ralphgen.terminal.app import ShellCommand
from ralphgen.terminal.console import say


class RecipeCommand(ShellCommand):
    """A command whose first argument is a recipe."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the recipes and exit with 2 if there is no argument.

        A shell that completes a command line needs none.
        """
        if not args and not ctx.resilient_parsing:
            formatter = ctx.make_formatter()
            formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)))
            _write_recipes(formatter)
            say(formatter.getvalue().rstrip())
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Add the recipes to the help."""
        super().format_options(ctx, formatter)
        _write_recipes(formatter)


def _write_recipes(formatter: Any) -> None:
    """Write the recipes of the project around the working directory, each with its purpose."""
    from ralphgen.project.root import project_root
    from ralphgen.sessions.recipes import recipe_sentences

    try:
        root = project_root(Path())
    except RalphgenError:
        root = None
    with formatter.section("Recipes"):
        rows = [(plain(name), plain(text)) for name, text in recipe_sentences(root).items()]
        formatter.write_dl(rows)
