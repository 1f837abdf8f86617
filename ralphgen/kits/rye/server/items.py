"""The five universal tools; what each of them does stands in a module of its own."""

from __future__ import annotations

from .tracing import traced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralphgen.runtime.deferred import Waiting

    from .workspace import Rye


def search(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Items that a query matches, the best first (reference, section 3)."""
    from . import searching

    return traced("search", searching.search, rye, arguments)


def load(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """The text of an item and what it says; or a copy of it (reference, section 4)."""
    from . import loading

    return traced("load", loading.load, rye, arguments)


def execute(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any] | Waiting:
    """What an item does, or what it tells an agent to do (reference, section 5)."""
    from . import executing

    return traced("execute", executing.execute, rye, arguments)


def sign(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """An item, or those of a pattern, checked and signed (reference, section 6)."""
    from . import signing

    return traced("sign", signing.sign, rye, arguments)


def help(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """How the tools and the formats are used (reference, section 7)."""
    from . import helping

    return traced("help", helping.help_on, rye, arguments)
