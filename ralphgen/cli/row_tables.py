"""Prints tables and whole rows of the project with rich, as wide as the terminal."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ralphgen.errors import harmless, plain
from ralphgen.terminal.console import escaped, say


class PageConsole(Console):
    """A console on a standard stream, unless it has another file."""

    def __init__(self, *, stderr: bool = False, file: IO[str] | None = None, **more: Any) -> None:
        """Use the current stream, which a live view replaces later."""
        own = sys.stderr if stderr else sys.stdout
        super().__init__(stderr=stderr, file=file or own, **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments with escaped text, except the control codes of rich."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


Row = Mapping[str, Any]
UNLIMITED = 1_000  # columns, if the width is unknown
LEAST = 30  # width of the last column before others are dropped
GAP = 2  # spaces between columns
HUES = {
    "done": "green",
    "skipped": "dim",
    "in_progress": "yellow",
    "blocked": "red",
    "claimed": "yellow",
    "stale": "red",
    "ready": "bold",
    "running": "green",
    "critical": "red",
    "high": "yellow",
}
COLUMNS = {
    "tasks": ("id", "status", "priority", "feature", "discipline", "held_by", "title"),
    "features": ("name", "acronym", "display_name", "description"),
    "disciplines": ("name", "acronym", "display_name", "description"),
}
NEEDED = ("id", "status", "title", "name", "display_name")
"""The columns that a narrow terminal shows."""
MISSED_LEAST = ("priority", "held_by")
"""The first columns that a narrow terminal drops."""


def page_console(*, to_stderr: bool = False) -> PageConsole:
    """Return a console as wide as the terminal, or with unlimited width outside of one."""
    width = shutil.get_terminal_size((UNLIMITED, 24)).columns
    return PageConsole(width=width, stderr=to_stderr, markup=False, emoji=False, highlight=False)


def show_rows(rows: Sequence[Row], columns: Sequence[str], total: int) -> None:
    """Print a line for each row, with fewer columns on a narrow terminal; only the last is cut.

    Ids and names remain whole, so that you can copy them. Reports omitted rows of the `total`.
    """
    console = page_console()
    shown = [name for name in columns if any(row.get(name) for row in rows)]
    widths = {
        name: max(len(name), *(_cell(row.get(name)).cell_len for row in rows)) for name in shown
    }
    for name in [*MISSED_LEAST, *shown]:
        if (
            name in shown
            and name not in NEEDED
            and _last_column_width(widths, shown, console.width) < LEAST
        ):
            shown.remove(name)
    table = Table(box=None, pad_edge=False, header_style="dim")
    last = max(_last_column_width(widths, shown, console.width), 1)
    for name in shown:
        table.add_column(
            name.replace("_", " "),
            justify="right" if name == "id" else "left",
            overflow="ellipsis",
            no_wrap=True,
            width=min(widths[name], last) if name == shown[-1] else widths[name],
        )
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in shown))
    console.print(table, soft_wrap=False)
    if total > len(rows):
        say(f"and {total - len(rows):,} more: see them with --limit {total}")


def _last_column_width(widths: Mapping[str, int], shown: Sequence[str], width: int) -> int:
    """Return the width that remains for the last column."""
    return width - sum(widths[name] + GAP for name in shown[:-1])


def show_record(record: Row, title: str) -> None:
    """Print a whole row: a line for each short field, and a paragraph for each long one."""
    console = page_console()
    console.print(Text(plain(title), style="bold"), soft_wrap=_is_piped())
    for name, value in record.items():
        label = name.replace("_", " ")
        lines = _lines(value)
        if len(lines) == 1 and not isinstance(value, list):
            console.print(Text(f"{label}: ", style="dim") + _cell(lines[0]), soft_wrap=_is_piped())
            continue
        console.print(Text(f"{label}:", style="dim"))
        for line in lines:
            console.print(Text(f"  {harmless(line)}"), soft_wrap=_is_piped())


def _is_piped() -> bool:
    return not (sys.stdout.isatty() or "COLUMNS" in os.environ)


def _cell(value: object) -> Text:
    text = "" if value is None else plain(str(value))
    return Text(text, style=HUES.get(text, ""))


def _lines(value: object) -> list[str]:
    """Return a value as lines: one for each item of a list or line of a text."""
    if isinstance(value, list):
        return [_item(one) for one in value]
    if isinstance(value, dict):
        return [_item(value)]
    return str(value).splitlines() or [""]


def _item(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_item(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_item, value))
    return plain(str(value))
