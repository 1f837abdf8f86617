"""Rich tables of facts and of the policy, for a terminal."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ralphgen.cli.row_tables import HUES, PageConsole, page_console
from ralphgen.errors import counted, plain
from ralphgen.kits.project import Project
from ralphgen.ledger.record import SessionRecord
from ralphgen.loop.cost import session_cost
from ralphgen.planning import KitPlan, ServerPlan, listing_bytes, session_tools
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.project.model import Table as DatabaseTable
from ralphgen.project.root import database_label
from ralphgen.sessions.store import StoredSession, age_words
from ralphgen.terminal.console import print_result

Entries = list[dict[str, Any]]
"""Tools as `tools/list` gives them."""

ABREAST = 10  # numbered columns that fit next to tool names in 80 characters


def tool_matrix(plan: ServerPlan, discipline: str | None = None) -> dict[str, object]:
    """Return, by kit, the tools, and by recipe the names of its tools and the bytes of its list.

    With a `discipline`, without the tools that it removes.
    """
    return {
        kit.key: {
            "tools": [tool.name for tool in kit.tools],
            "absent": dict(kit.absent),
            "recipes": {
                name: {"tools": _names(tools), "bytes": listing_bytes(tools)}
                for name, tools in _recipe_entries(plan, kit, discipline).items()
            },
        }
        for kit in plan.kits
    }


def show_tools(plan: ServerPlan, discipline: str | None = None) -> None:
    """Print each kit's matrix of tools and numbered recipes, below a list of the recipes.

    With a `discipline`, without the tools that it removes.
    """
    console = _console()
    kits = {kit.key: _recipe_entries(plan, kit, discipline) for kit in plan.kits}
    served = [name for name in plan.policy.recipes if any(seen[name] for seen in kits.values())]
    recipes = {name: at for at, name in enumerate(served, start=1)}
    without = [plain(name) for name in plan.policy.recipes if name not in recipes]
    if without and served:
        print_result(f"recipes without a tool: {', '.join(without)}")
    for kit in plan.kits:
        seen = kits[kit.key]
        console.print(f"{kit.key}: {counted(len(kit.tools), 'tool')}")
        if not kit.tools:
            continue
        console.print(_recipes(seen, recipes))
        names = list(recipes)
        for start in range(0, len(names), ABREAST):
            console.print(_matrix(kit, seen, recipes, names[start : start + ABREAST]))
        _show_absent(kit)


def show_facts(inspected: Project, found: Mapping[str, Finding]) -> None:
    """Print the inspected schema, removals, recipes and tools, and the findings of each kit."""
    console = _console()
    project = inspected.facts
    print_result(f"database: {plain(database_label(inspected.root))}")
    for table in project.schema.tables:
        console.print(f"{plain(table.name)}: {counted(len(table.columns), 'column')}")
        console.print(_columns(project, table))
    for removal in (*project.stored_removals, *project.configured_removals):
        taken = f'discipline "{removal.discipline}" takes away: {", ".join(removal.entries)}'
        print_result(plain(taken))
    for recipe in project.recipes:
        print_result(plain(f'recipe "{recipe.name}" takes from "{recipe.base}"'))
    for one in inspected.plan.wordings:
        print_result(plain(one.description_message))
    console.print(f"kits: {', '.join(project.kits)}")
    for kit in inspected.plan.kits:
        console.print(f"{kit.key}: {counted(len(kit.tools), 'tool')}")
        _show_absent(kit)
        if kit.key in found and found[kit.key].summary:
            _print_finding(console, found[kit.key])
    for key, finding in found.items():
        if key not in project.kits and finding.summary:
            hint = f'to enable it, run "ralphgen init --kit {key}"'
            print_result(f"{key} is off; it would serve {finding.summary}; {hint}")


def _print_finding(console: Console, finding: Finding) -> None:
    """Print the content of an enabled kit: a table for each kind, with its keys as columns."""
    print_result(f"{finding.summary}:")
    for rows in finding.details.values():
        if rows:
            table = Table(*rows[0])
            for row in rows:
                table.add_row(*(plain(str(value or "")) for value in row.values()))
            console.print(table)
    if finding.hint:
        print_result(plain(finding.hint))


def show_sessions(stored: Sequence[StoredSession], records: Mapping[str, SessionRecord]) -> None:
    """Print each session with its record, newest first.

    Ids are never cut, so that you can copy them.
    """
    console = page_console()
    if not stored:
        console.print("no sessions yet")
        return
    rows = [_session_cells(one, records.get(one.session_id)) for one in stored]
    headings = ("session", "about", "discipline", "age", "turns", "cost", "agent", "")
    taken = [at for at, column in enumerate(zip(*rows, strict=True)) if any(column)]
    widths = [max(map(cell_len, (headings[at], *(row[at] for row in rows)))) for at in taken]
    if sum(widths) + 2 * len(taken) > console.width:
        for one, (name, _, *more) in zip(stored, rows, strict=True):
            row = name, _subject(one, named=True), *more
            console.print(Text(name, style="bold"), soft_wrap=True)
            words = [f"{headings[at]} {row[at]}".strip() for at in taken[1:] if row[at]]
            whole = ", ".join(word.replace(" ", "\0") for word in words)
            for line in wrap(whole, console.width - 2):
                console.print(f"  {line}".replace("\0", " "), soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False)
    for at in taken:
        table.add_column(headings[at], justify="right" if at in {4, 5} else "left")
    for row in rows:
        cells: list[RenderableType] = [*row[:-1], Text(row[-1], style=HUES.get(row[-1], ""))]
        table.add_row(*(cells[at] for at in taken))
    console.print(table)


def _session_cells(stored: StoredSession, record: SessionRecord | None) -> tuple[str, ...]:
    """Return id, rows, discipline, age, turns, cost, containment and state of a session."""
    facts = stored.facts
    discipline = plain(str(facts.get("discipline") or ""))
    turns = cost = outcome = ""
    if record is not None:
        turns = "" if record.turns is None else f"{record.turns:,}"
        cost = session_cost(record)
        outcome = plain(record.outcome or "")
    state = "running" if stored.running else "dry run" if stored.dry_run else outcome
    name = plain(stored.session_id)
    age = age_words(stored.age)
    return name, _subject(stored), discipline, age, turns, cost, stored.containment, state


def _subject(stored: StoredSession, *, named: bool = False) -> str:
    """Return the rows that a session is about, such as `1 auth`, or `task 1, feature auth`."""
    about = ("task", "task_id"), ("feature", "feature"), ("discipline", "target_discipline")
    rows = [(name, stored.facts[key]) for name, key in about if stored.facts.get(key) is not None]
    if named:
        return plain(", ".join(f"{name} {row}" for name, row in rows))
    return plain(" ".join(str(row) for _, row in rows))


def _console() -> PageConsole:
    """Return a console that prints names unchanged, without markup."""
    return PageConsole(markup=False, emoji=False, highlight=False)


def _recipe_entries(plan: ServerPlan, kit: KitPlan, discipline: str | None) -> dict[str, Entries]:
    """Return the answer of `tools/list` for the sessions of each recipe."""
    return {
        name: session_tools(plan, name, kit, discipline=discipline) for name in plan.policy.recipes
    }


def _names(tools: Entries) -> list[str]:
    return [tool["name"] for tool in tools]


def _recipes(seen: Mapping[str, Entries], numbers: Mapping[str, int]) -> Table:
    """Return number, name, tools and bytes of each recipe."""
    table = Table()
    table.add_column("", justify="right")
    table.add_column("recipe")
    table.add_column("tools", justify="right")
    table.add_column("bytes of tools/list", justify="right")
    for name, number in numbers.items():
        size = listing_bytes(seen[name])
        table.add_row(str(number), plain(name), str(len(seen[name])), f"{size:,}")
    return table


def _matrix(
    kit: KitPlan, seen: Mapping[str, Entries], numbers: Mapping[str, int], names: Sequence[str]
) -> Table:
    """Return a row for each tool, a column for each of the recipes, under its number."""
    table = Table("tool")
    for name in names:
        table.add_column(str(numbers[name]), justify="center")
    by_recipe = [_names(seen[name]) for name in names]
    for tool in kit.tools:
        table.add_row(tool.name, *("●" if tool.name in tools else "" for tools in by_recipe))
    return table


def _columns(project: ProjectFacts, table: DatabaseTable) -> Table:
    shown = Table("column", "type", "not null", "values", "references")
    for column in table.columns:
        hidden = " (hidden)" if project.schema.hidden(table.name, column.name) else ""
        must, values = "yes" if column.not_null else "", ", ".join(column.values or ())
        cells = (f"{column.name}{hidden}", column.type, must, values, column.references or "")
        shown.add_row(*map(plain, cells))
    return shown


def _show_absent(kit: KitPlan) -> None:
    for name, reason in kit.absent.items():
        print_result(plain(f"not offered: {name}: {reason}"))
