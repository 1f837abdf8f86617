"""Marks the tools that run SQL of the project: views, triggers and columns count as such."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..deferred import DeferredResult

    Run = Callable[[Any, dict[str, Any]], Any]
    # Returns a tool for a query, a table or a tool of the project: an object with slots.
    Make = Callable[[Any], Run]


def in_child(make: Make) -> Make:
    """Decorate a function that returns a tool: the tool then runs in a child process.

    `make` takes one object of plain values, such as a query. Its `seconds` limit the statements of
    each call; an object without has 20.
    """

    def made(about: Any) -> Callable[[Any, dict[str, Any]], dict[str, Any] | DeferredResult]:
        def call(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any] | DeferredResult:
            from .calls import begin

            return begin(workspace, make, about, arguments)

        return call

    vars(made)["make"] = make  # for the child
    return made
