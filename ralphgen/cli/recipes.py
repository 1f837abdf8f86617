"""Commands that take a recipe: without arguments, and in their help, they list the recipes."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from ralphgen.agents.calls import KIT
from ralphgen.errors import RalphgenError, plain
from ralphgen.project.root import RECIPES, project_root
from ralphgen.terminal.app import ShellCommand
from ralphgen.terminal.console import say

BUILT_IN = {
    "braindump": "Turn ideas into features, disciplines and tasks",
    "yap": "Discuss the tasks",
    "ramble": "Discuss a feature",
    "discuss": "Refine a discipline",
    "task_execution": "Complete one task (needs --task or --next)",
    "opus_review": "Review progress and plan the next tasks",
    "enrichment": "Make draft tasks ready to work on",
    "interactive": "Look around with read-only tools",
    "manual": "Use all tools",
}


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
    """Write the recipes of the project around the working directory."""
    try:
        root = project_root(Path())
    except RalphgenError:
        root = None
    with formatter.section("Recipes"):
        formatter.write_dl([*described_recipes(root).items()])


def described_recipes(root: Path | None) -> dict[str, str]:
    """Return purpose and number of tools of each recipe; the number only for a project's server.

    The recipes of a project that cannot be read are left out.
    """
    from ralphgen.agents.calls import read_policy

    try:
        policy = None if root is None else read_policy(root, trust_edited=True)
    except RalphgenError:
        policy = None
    has_tasks = policy is None or KIT in policy.kits
    custom = {} if root is None else _custom_recipes(root, has_tasks=has_tasks)
    purposes = {**BUILT_IN, **custom}
    for name in purposes:
        if policy is not None and name in policy.recipes:
            tools = sum(len(policy.allowed(name, kit)) for kit in policy.kits)
            purposes[name] += f"; {tools} tools"
    return {plain(name): plain(text) for name, text in purposes.items()}


def _custom_recipes(root: Path, *, has_tasks: bool) -> dict[str, str]:
    """Return the purpose of each recipe of the project: of its files, and of its database."""
    from ralphgen.project.schema import open_rows

    found: dict[str, str] = {}
    for path in sorted((root / RECIPES).glob("*.toml")):
        with suppress(OSError, ValueError):
            recipe = tomllib.loads(path.read_text(encoding="utf-8"))
            base = f"Like {recipe.get('base')}, with fewer tools"
            found[path.stem] = str(recipe.get("description") or base)
    try:
        with open_rows(root, has_tasks=has_tasks) as rows:
            for name in rows.names("recipe_configs"):
                found.setdefault(name, f"Like {rows.base(name)}")
    except RalphgenError:
        return found
    return found
