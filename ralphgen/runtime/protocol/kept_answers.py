"""What a server says of itself, kept for later starts: they list tools without a look at them."""

from __future__ import annotations

from ..kept import open_kept
from ..modules import kept_name
from ..values.encoding import sha256_hex, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..kit import Kit, Workspace
    from ..session import Session
    from .handlers import Handlers

SAID = ("capabilities", "instructions", "listening", "long_tools", "stateless_capabilities")
LIST = "tools/list"


class KeptHandlers:
    """Stands for `Handlers`, of which it knows what was kept, and makes them for anything else.

    That begins with the first request that is no `tools/list`.
    """

    def __init__(
        self,
        kept: Mapping[str, Any],
        make: Callable[[], Handlers],
        kit: Kit,
        workspace: Workspace,
        version: str,
    ) -> None:
        version = kit.version or version
        vars(self).update(kept, _make=make, kit=kit, workspace=workspace, version=version)

    def __getattr__(self, name: str) -> Any:
        """Return what is not known."""
        made = self._make()
        for own in (*made.__slots__, "answers", "only_reads"):
            vars(self).setdefault(own, getattr(made, own))
        return getattr(made, name)


def made_handlers(kit: Kit, session: Session, workspace: Workspace, version: str) -> Handlers:
    """Return the handlers of a kit; raises `StartError` where its session must not have its tools.

    Their module is one that only some starts need.
    """
    from .handlers import Handlers

    return Handlers(kit, session, session.tools(kit.tools), workspace, version)


def name_for(session: Session) -> str:
    """Return the name under which is kept what a session sees; empty where nothing is."""
    server = kept_name()
    view = session.view() if server else None
    if view is None:
        return ""
    return f"answers-{sha256_hex(f'{server}{session.kit}{view}'.encode())[:32]}"


def read_answers(name: str) -> Mapping[str, Any] | None:
    """Return what is kept under a name; None where nothing is."""
    kept: Any = open_kept(name) if name else None
    if kept is None:
        return None
    kept[2]()
    facts: Mapping[str, Any] = kept[0]
    return facts


def keep_answers(name: str, handlers: Handlers) -> None:
    """Keep what a server says of itself, with its tools as `tools/list` writes them."""
    from ..bytecode import keep

    listed = write_json(handlers.methods[LIST]({}))[1:-1].encode("utf-8", "backslashreplace")
    keep(name, {"listed": listed, **{key: getattr(handlers, key) for key in SAID}})
