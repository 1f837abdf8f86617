"""The sessions that there are, as a table for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ralphgen.runtime.errors import one_line
from ralphgen.sessions.store import StoredSession

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def show_sessions(stored: Sequence[StoredSession]) -> None:
    """Print one row for each session, newest first."""
    console = Console(highlight=False, markup=False)
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


def age_words(seconds: float) -> str:
    """Return the age in the largest unit that it fills."""
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{int(seconds // size)} {unit}"
