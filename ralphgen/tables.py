"""Rich tables of facts and of the policy, for people at a terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ralphgen.generation import Generated
from ralphgen.listing import listed_bytes, listed_tools
from ralphgen.planning.model import ServerPlan


def tool_matrix(plan: ServerPlan) -> dict[str, object]:
    """By kit: the tools, and by recipe the names that it sees and the bytes of its list."""
    return {
        kit.key: {
            "tools": [tool.name for tool in kit.tools],
            "absent": dict(kit.absent),
            "recipes": {
                recipe: {
                    "tools": list(kits[kit.key]),
                    "bytes": listed_bytes(listed_tools(plan, recipe, kit)),
                }
                for recipe, kits in plan.policy.recipes.items()
            },
        }
        for kit in plan.kits
    }


def show_tools(plan: ServerPlan) -> None:
    """Print the matrix of tools and recipes of each kit."""
    console = Console()
    recipes = plan.policy.recipes
    for kit in plan.kits:
        table = Table(title=f"{kit.key}: {len(kit.tools)} tools", title_justify="left")
        table.add_column("tool", no_wrap=True)
        for recipe in recipes:
            table.add_column(escape(recipe), justify="center")
        for tool in kit.tools:
            seen = ["●" if tool.name in recipes[name][kit.key] else "" for name in recipes]
            table.add_row(tool.name, *seen)
        sizes = [f"{listed_bytes(listed_tools(plan, name, kit)):,}" for name in recipes]
        table.add_section()
        table.add_row("tools", *(str(len(recipes[name][kit.key])) for name in recipes))
        table.add_row("bytes of tools/list", *sizes)
        console.print(table)
        for name, reason in kit.absent.items():
            console.print(f"not offered: {name}: {escape(reason)}")


def show_facts(generated: Generated) -> None:
    """Print the inspected schema, removals and recipes."""
    console = Console()
    project = generated.project
    for table in project.schema.tables:
        shown = Table("column", "type", "not null", "values", "references", title=table.name)
        shown.title_justify = "left"
        for column in table.columns:
            hidden = project.schema.hidden(table.name, column.name)
            shown.add_row(
                escape(column.name) + (" (hidden)" if hidden else ""),
                column.type,
                "yes" if column.not_null else "",
                escape(", ".join(column.values or ())),
                escape(column.references or ""),
            )
        console.print(shown)
    for removal in (*project.stored_removals, *project.configured_removals):
        names = ", ".join(removal.entries)
        console.print(escape(f'discipline "{removal.discipline}" takes away: {names}'))
    for recipe in project.recipes:
        console.print(escape(f'recipe "{recipe.name}" takes from "{recipe.base}"'))
    console.print(f"kits: {', '.join(project.kits)}")
    for kit in generated.plan.kits:
        console.print(f"{kit.key}: {len(kit.tools)} tools")
        for name, reason in kit.absent.items():
            console.print(escape(f"  not offered: {name}: {reason}"))
    for warning in generated.plan.warnings:
        console.print(escape(f"warning: {warning}"))
