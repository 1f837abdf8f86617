"""The common base of all engines' journals: the session of their entries."""

from __future__ import annotations

from .entries import moment
from .ledger import open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from . import Database


class SessionJournal:
    """Records an entry for each row that a connection changes from now on.

    `session` is the id of the writer. `facts` are the values of its ledger row, by the names of
    `SESSION_COLUMNS`; a missing row is added. If the session `ends_with_writes`, the ledger counts
    its last write as its end. `tool` returns the name of the current tool.
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
        self._version = -1  # the schema version of the triggers
        self._attach()

    def _attach(self) -> None:
        """Prepare the connection for its triggers."""

    def _open_session(self) -> tuple[Any, ...] | None:
        """Add the session's row if it is missing; else return a row with the end of the session."""
        sql = "SELECT ended FROM ralphgen_sessions WHERE id = ?"
        found = self._database.row(sql, (self.session,))
        if found is None:
            open_session(self._database, self.session, {**self._facts, "started": moment()})
        return found
