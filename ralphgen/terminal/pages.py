"""Consoles of rich that write sequences for colours, and escape all text in between."""

import sys
from collections.abc import Iterable
from typing import IO, Any

import rich.console
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ralphgen.terminal.console import escaped


class PageConsole(Console):
    """A console on a standard stream, unless it has another file."""

    def __init__(self, *, stderr: bool = False, file: IO[str] | None = None, **more: Any) -> None:
        """Write to the stream of this moment: a live view takes its place later."""
        own = sys.stderr if stderr else sys.stdout
        super().__init__(stderr=stderr, file=file or own, **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of what is shown; those that control the terminal are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def guard_consoles() -> None:
    """Have the consoles of rich and Typer escape text, whichever of them is imported already."""
    for module in (rich.console, sys.modules.get("typer.rich_utils")):
        if module is not None:
            vars(module)["Console"] = PageConsole
