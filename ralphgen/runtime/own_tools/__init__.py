"""Tools that a project has written itself, each call in a process that asks the server.

This much is loaded with the tables of tools, the rest by the first call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..deferred import DeferredResult


ANYTHING: Mapping[str, Any] = {}


class OwnFunction:
    """A function of a file in `.ralph/tools/`; `sha256` is the digest of the file.

    It is stopped after so many `seconds`, and may not write if it only `reads`. `answers` is the
    JSON Schema of its answers; a value other than an object or a text is the `result` of an object.
    """

    __slots__ = ("answers", "file", "name", "reads", "seconds", "sha256")

    def __init__(
        self,
        name: str,
        file: str,
        sha256: str,
        *,
        seconds: int,
        reads: bool = False,
        answers: Mapping[str, Any] = ANYTHING,
    ) -> None:
        self.answers = answers
        self.name = name
        self.file = file
        self.sha256 = sha256
        self.seconds = seconds
        self.reads = reads


def own_tool(tool: OwnFunction) -> Callable[[Any, dict[str, Any]], DeferredResult]:
    """Return a function that runs a project's tool; its answer is deferred."""

    def call(workspace: Any, arguments: dict[str, Any]) -> DeferredResult:
        from .calls import begin

        return begin(workspace, tool, arguments)

    return call
