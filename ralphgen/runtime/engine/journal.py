"""What the journals of all engines know: whose entries they make."""

from __future__ import annotations

from .entries import moment
from .ledger import open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from . import Database


class SessionJournal:
    """Makes an entry for each row that a connection changes from now on.

    `session` is who writes and `facts` its row in the ledger, by the names of `SESSION_COLUMNS`,
    which is added where it is missing; a session that `ends_with_writes` has ended, for the ledger,
    when it last wrote. `tool` returns what the session calls at the moment.
    """

    __slots__ = ("_database", "_ends_with_writes", "_facts", "_tool", "_version", "session")

    def __init__(
        self,
        database: Database,
        session: str,
        facts: Mapping[str, Any],
        tool: Callable[[], str],
        *,
        ends_with_writes: bool = False,
    ) -> None:
        self.session = session
        self._database = database
        self._ends_with_writes = ends_with_writes
        self._facts = facts
        self._tool = tool
        self._version = -1  # of the schema whose tables are watched
        self._attach()

    def _attach(self) -> None:
        """Give the connection what its triggers ask for."""

    def _open_session(self) -> tuple[Any, ...] | None:
        """Add the session's row where it is missing, else return when the session has ended."""
        sql = "SELECT ended FROM ralphgen_sessions WHERE id = ?"
        found = self._database.row(sql, (self.session,))
        if found is None:
            open_session(self._database, self.session, {**self._facts, "started": moment()})
        return found
