"""The five tools: each is imported at its first call, and logged with RYE_DEBUG."""

from __future__ import annotations

import os
import time

from ralphgen.runtime.deferred import DeferredResult
from ralphgen.runtime.errors import DeferError, ToolError, log

from .values import TRUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from .workspace import Rye

    Result = TypeVar("Result")

VARIABLE = "RYE_DEBUG"
LATER = "later"
SHOWN = ("item_type", "item_id", "topic")  # logged arguments; others may contain secrets


def traced(
    tool: str,
    work: Callable[[Rye, dict[str, Any]], Result],
    rye: Rye,
    arguments: dict[str, Any],
) -> Result:
    """Return the result of a call; with RYE_DEBUG, log the item and the duration."""
    if os.environ.get(VARIABLE, "").strip().lower() not in TRUE:
        return work(rye, arguments)
    facts = {"tool": tool, **{name: arguments[name] for name in SHOWN if name in arguments}}
    begun = time.monotonic()
    answer: Any = _noted(facts, begun, lambda: work(rye, arguments))
    if isinstance(answer, DeferredResult):
        outcome, leave = answer.outcome, answer.leave
        answer = DeferredResult(lambda: _noted(facts, begun, outcome), leave)
    noted: Result = answer
    return noted


def _noted(facts: dict[str, Any], begun: float, work: Callable[[], Any]) -> Any:
    """Return or raise the outcome of `work`, and log it unless it is deferred."""
    outcome = "failed"
    try:
        answer = work()
        outcome = LATER if isinstance(answer, DeferredResult) else "done"
    except DeferError:
        outcome = LATER
        raise
    except ToolError as error:
        outcome = str(getattr(error, "code", outcome))
        raise
    finally:
        if outcome != LATER:
            milliseconds = round((time.monotonic() - begun) * 1_000, 1)
            log("debug", "rye", {**facts, "outcome": outcome, "milliseconds": milliseconds})
    return answer


def search(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the items that match a query, best first (reference, section 3)."""
    from . import searching

    return traced("search", searching.search, rye, arguments)


def load(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the text and metadata of an item, and copy it on request (reference, section 4)."""
    from . import loading

    return traced("load", loading.load, rye, arguments)


def execute(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any] | DeferredResult:
    """Run a tool, or return a directive or knowledge (reference, section 5)."""
    from . import executing

    return traced("execute", executing.execute, rye, arguments)


def sign(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check and sign one item, or all that match a pattern (reference, section 6)."""
    from . import signing

    return traced("sign", signing.sign, rye, arguments)


def help(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Explain the tools and item formats (reference, section 7)."""
    from . import helping

    return traced("help", helping.help_on, rye, arguments)
