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


def stating(run: Run, kind: str) -> Run:
    """Mark a tool whose statements, of the kind "read" or "write", are on ralph's own tables.

    If the database runs code of the project for that kind, such as a trigger, the whole call runs
    in a child process (see `own_code`).
    """
    vars(run)["states"] = kind
    return run


def in_child(make: Make) -> Make:
    """Decorate a function that returns a tool: the tool then runs in a child process.

    `make` takes one object of plain values, such as a query. Its `seconds` limit the statements of
    each call; an object without has 20.
    """

    def create(about: Any) -> Callable[[Any, dict[str, Any]], dict[str, Any] | DeferredResult]:
        def call(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any] | DeferredResult:
            from .calls import begin

            return begin(workspace, make, about, arguments)

        return call

    vars(create)["make"] = make  # for the child
    return create
