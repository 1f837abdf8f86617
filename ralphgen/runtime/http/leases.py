"""Renews the claim of a session on its task: its calls alone tell that its agent lives."""

from __future__ import annotations

import _thread
import time

from ..errors import StartError, ToolError, log
from ..tasks.claims import renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..engine import Database


class Lease:
    """The claim that a token names, renewed at the first call and every third of its lease.

    No process holds it, since any worker of any machine may answer the next call. `connect` makes a
    connection of its own, so that no call waits for the renewal. `claims` are those of the token.
    """

    __slots__ = ("_claims", "_connect", "_next")

    def __init__(self, connect: Callable[[], Database], claims: Mapping[str, Any]) -> None:
        self._claims = claims
        self._connect = connect
        self._next = 0.0

    def used(self) -> None:
        """Note that the session has called."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._claims["lea"] / 3
            _thread.start_new_thread(self._renew, ())

    def _renew(self) -> None:
        """Renew the claim once; where that fails, a later call tries again."""
        told = self._claims
        try:
            database = self._connect()
            try:
                database.writing(
                    lambda: renew(
                        database, told["tsk"], told["jti"], told["cla"], told["lea"], anywhere=True
                    )
                )
            finally:
                database.close()
        except (StartError, ToolError) as error:
            log("warning", "http", f"a claim could not be renewed: {error}")
