"""Rich tables of facts and of the policy, for people at a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from ralphgen.generate.workflows import Generated
from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.planning.preview import listed_bytes, listed_tools
from ralphgen.project.kit import Finding
from ralphgen.project.model import Column, Project
from ralphgen.project.model import Table as DatabaseTable
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.store import StoredSession, age_words

ABREAST = 10  # numbered columns that stand beside the names of tools in 80 characters


def tool_matrix(plan: ServerPlan) -> dict[str, object]:
    """Return, by kit, the tools, and by recipe the names that it sees and the bytes of its list."""
    return {
        kit.key: {
            "tools": [tool.name for tool in kit.tools],
            "absent": dict(kit.absent),
            "recipes": {
                name: {
                    "tools": list(recipe.tools[kit.key]),
                    "bytes": listed_bytes(listed_tools(plan, name, kit)),
                }
                for name, recipe in plan.policy.recipes.items()
            },
        }
        for kit in plan.kits
    }


def show_tools(plan: ServerPlan) -> None:
    """Print each kit's matrix of tools and numbered recipes, below a list of the recipes."""
    console = _console()
    recipes = {name: at for at, name in enumerate(plan.policy.recipes, start=1)}
    for kit in plan.kits:
        console.print(f"{kit.key}: {len(kit.tools)} tools")
        console.print(_recipes(plan, kit, recipes))
        names = list(recipes)
        for start in range(0, len(names), ABREAST):
            console.print(_matrix(plan, kit, recipes, names[start : start + ABREAST]))
        _show_absent(console, kit)


def show_facts(generated: Generated, found: Mapping[str, Finding]) -> None:
    """Print the inspected schema, removals, recipes and tools, and what was found for each kit."""
    console = _console()
    project = generated.project
    for table in project.schema.tables:
        console.print(f"{table.name}: {len(table.columns)} columns")
        console.print(_columns(project, table))
    for removal in (*project.stored_removals, *project.configured_removals):
        names = ", ".join(removal.entries)
        console.print(f'discipline "{removal.discipline}" takes away: {names}', soft_wrap=True)
    for recipe in project.recipes:
        console.print(f'recipe "{recipe.name}" takes from "{recipe.base}"', soft_wrap=True)
    console.print(f"kits: {', '.join(project.kits)}")
    for kit in generated.plan.kits:
        console.print(f"{kit.key}: {len(kit.tools)} tools")
        _show_absent(console, kit)
        if kit.key in found and found[kit.key].summary:
            _show_found(console, found[kit.key])
    for key, finding in found.items():
        if key not in project.kits and finding.summary:
            hint = f'switch it on with "ralphgen init --kit {key}"'
            console.print(f"{key} is off and would serve {finding.summary}: {hint}", soft_wrap=True)


def _show_found(console: Console, finding: Finding) -> None:
    """Print what a kit that is on would serve: a table for each kind, its keys as columns."""
    console.print(f"{finding.summary}:", soft_wrap=True)
    for rows in finding.details.values():
        if rows:
            table = Table(*rows[0])
            for row in rows:
                table.add_row(*(str(value or "") for value in row.values()))
            console.print(table)


def show_sessions(stored: Sequence[StoredSession]) -> None:
    """Print one row for each session, newest first."""
    console = _console()
    if not stored:
        console.print("there is no session")
        return
    table = Table("session", "about", "as", "age", "", box=None, pad_edge=False)
    for one in stored:
        facts = one.facts
        about = [facts.get(key) for key in ("task_id", "feature", "target_discipline")]
        shown = " ".join(one_line(str(row)) for row in about if row is not None)
        discipline = one_line(str(facts.get("discipline") or ""))
        running = "running" if one.running else ""
        table.add_row(one.session_id, shown, discipline, age_words(one.age), running)
    console.print(table)


def _console() -> Console:
    """Return a console that prints names as they are: brackets and colons are no markup."""
    return Console(markup=False, emoji=False, highlight=False)


def _recipes(plan: ServerPlan, kit: KitPlan, numbers: Mapping[str, int]) -> Table:
    """Return number, name, tools and bytes of each recipe."""
    table = Table()
    table.add_column("", justify="right")
    table.add_column("recipe")
    table.add_column("tools", justify="right")
    table.add_column("bytes of tools/list", justify="right")
    for name, number in numbers.items():
        size = listed_bytes(listed_tools(plan, name, kit))
        count = len(plan.policy.recipes[name].tools[kit.key])
        table.add_row(str(number), name, str(count), f"{size:,}")
    return table


def _matrix(
    plan: ServerPlan, kit: KitPlan, numbers: Mapping[str, int], names: Sequence[str]
) -> Table:
    """Return a row for each tool, a column for each of the recipes, under its number."""
    table = Table("tool")
    for name in names:
        table.add_column(str(numbers[name]), justify="center")
    for tool in kit.tools:
        seen = (plan.policy.recipes[name].tools[kit.key] for name in names)
        table.add_row(tool.name, *("●" if tool.name in tools else "" for tools in seen))
    return table


def _columns(project: Project, table: DatabaseTable) -> Table:
    shown = Table("column", "type", "not null", "values", "references")
    for column in table.columns:
        hidden = " (hidden)" if project.schema.hidden(table.name, column.name) else ""
        shown.add_row(f"{column.name}{hidden}", *_column(column))
    return shown


def _column(column: Column) -> tuple[str, str, str, str]:
    must = "yes" if column.not_null else ""
    return column.type, must, ", ".join(column.values or ()), column.references or ""


def _show_absent(console: Console, kit: KitPlan) -> None:
    for name, reason in kit.absent.items():
        console.print(f"not offered: {name}: {reason}", soft_wrap=True)
