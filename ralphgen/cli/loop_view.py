"""The live view of a loop: its workers with their tasks and last calls, its cost, and the rest."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ralphgen.cli.row_tables import page_console
from ralphgen.errors import plain
from ralphgen.loop.cost import Costs
from ralphgen.loop.run import Event, duration, event_lines
from ralphgen.terminal.console import fitted

PAUSE = 3.0  # seconds between two looks at the database, at least
SHARE = 30  # times as long as a look takes, where there are very many tasks


@dataclass(slots=True)
class WorkerRow:
    """The current task and call of one worker."""

    about: str
    began: float
    call: str = ""


class LoopScreen:
    """The content of the view, which events change."""

    def __init__(self) -> None:
        """Start empty."""
        self._began = time.monotonic()
        self._places: dict[int, WorkerRow] = {}
        self.counts: Mapping[str, int] = {}
        self._outcomes: dict[str, int] = {}
        self._costs = Costs()
        self._note = ""

    def take(self, told: Event) -> None:
        """Take an event into account."""
        match told:
            case {"event": "begin", "workers": int(workers)}:
                self._places = {number: _free() for number in range(1, workers + 1)}
            case {"event": "session", "worker": int(worker), "task": task}:
                about = "review" if task is None else f"{task} {told['title']}"
                self._places[worker] = WorkerRow(plain(about), time.monotonic())
            case {"event": "call", "worker": int(worker), "tool": str(tool)}:
                if worker in self._places:
                    self._places[worker].call = plain(tool)
            case {"event": "end", "worker": int(worker), "outcome": str(outcome)}:
                self._places[worker] = _free()
                self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
                self._costs.take(told)
            case {"event": "pause" | "away" | "limit" | "unavailable" | "stopping"}:
                self._note = " ".join(event_lines(told)) or self._note

    def __rich__(self) -> Group:
        """Return the current view, in 80 columns."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
        table.add_column("", width=2)
        table.add_column("task", ratio=5, no_wrap=True, overflow="ellipsis")
        table.add_column("last call", ratio=4, no_wrap=True, overflow="ellipsis")
        table.add_column("for", width=11, no_wrap=True)
        for number, place in self._places.items():
            since = duration(time.monotonic() - place.began) if place.about else ""
            table.add_row(str(number), Text(place.about or "-"), Text(place.call), since)
        facts = [f"{number} {name}" for name, number in {**self._outcomes, **self.counts}.items()]
        facts += filter(None, [str(self._costs)])
        facts += [duration(time.monotonic() - self._began)]
        return Group(table, Text(", ".join(facts), style="bold"), Text(self._note))


def _free() -> WorkerRow:
    return WorkerRow("", time.monotonic())


class LiveView:
    """The view in a terminal, below the lines about past events."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Draw on standard error; `counts` returns the number of tasks by state."""
        self._screen = LoopScreen()
        self._counts = counts
        self._next_count = 0.0
        console = page_console(to_stderr=True)
        self._live = Live(self._screen, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal is gone
            self._live.stop()

    def show(self, told: Event | None) -> None:
        """Show an event; None only draws the view."""
        now = time.monotonic()
        if now >= self._next_count:
            self._screen.counts = self._counts()
            taken = time.monotonic() - now
            self._next_count = now + max(PAUSE, SHARE * taken)
        if told is not None:
            self._screen.take(told)
            for line in event_lines(told):
                self._live.console.print(fitted(line, 2), soft_wrap=True)
