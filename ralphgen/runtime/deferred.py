"""An answer that takes its time: work begun in its turn, for whose end others do not wait."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class DeferredResult:
    """What a call returns whose answer is not there yet.

    `outcome` waits for the answer and returns it, or raises what the call would have raised;
    `leave` says that nobody waits for it any longer, and never waits itself.
    """

    __slots__ = ("leave", "outcome")

    def __init__(self, outcome: Callable[[], dict[str, Any]], leave: Callable[[], None]) -> None:
        self.outcome = outcome
        self.leave = leave


def settled(answer: dict[str, Any] | DeferredResult) -> dict[str, Any]:
    """Return an answer that is there, waited for where it takes time."""
    return answer.outcome() if isinstance(answer, DeferredResult) else answer
