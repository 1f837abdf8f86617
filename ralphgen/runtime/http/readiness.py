"""Tells whether a server should get requests: its files and its database are as when it began."""

from __future__ import annotations

import _thread
import os
import time

from ..errors import RefusedError, StartError
from ..values.encoding import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..engine import Revocations
    from ..protocol.handlers import Handlers
    from .sessions import Kits

KEPT = 1.0  # seconds for which what was found is told
READING = {"jti": "readiness", "rec": "interactive"}  # a session that only reads
LOOK = "resources/list"  # what reads a page of the database
UNSURE = "the server has not looked at its project yet"


class Readiness:
    """What a worker knows of the kits that it serves; `policy` is the digest that it began with.

    `revocations` is the list of ended sessions, which has to be readable. It keeps a workspace of
    each kit, and one thread looks at a time: probes cost next to nothing.
    """

    __slots__ = ("_held", "_kits", "_looking", "_policy", "_problem", "_revocations", "_until")

    def __init__(self, kits: Kits, policy: str, revocations: Revocations) -> None:
        self._held: dict[str, Handlers] = {}
        self._kits = kits
        self._looking = _thread.allocate_lock()
        self._policy = policy
        self._problem = UNSURE
        self._revocations = revocations
        self._until = 0.0

    def problem(self) -> str:
        """Return why this server should get no requests, in a sentence; empty where it should.

        Who asks while another looks is told what was found before.
        """
        if time.monotonic() > self._until and self._looking.acquire(blocking=False):
            try:
                self._problem = self._found()
                self._until = time.monotonic() + KEPT
            finally:
                self._looking.release()
        return self._problem

    def close(self) -> None:
        """Let go of the workspaces, once nobody looks."""
        with self._looking:
            while self._held:
                self._held.popitem()[1].workspace.close()

    def _found(self) -> str:
        try:
            if policy_digest(self._kits.folder) != self._policy:
                return "the server was regenerated after it started: restart it"
            self._revocations.holds(READING["jti"])
            for kit in self._kits.names:
                self._look_at(kit)
        except StartError:
            return 'the project cannot be opened: its log, or "ralphgen doctor", says why'
        except OSError:
            return "the list of ended sessions cannot be read"
        return ""

    def _look_at(self, kit: str) -> None:
        """Read in the workspace of a kit, in a new one if need be; raises `StartError`."""
        held = self._held.pop(kit, None)
        if held is not None and not _reads(held):
            held.workspace.close()
            held = None
        if held is None:
            held = self._kits.handlers(kit, READING)
            if not _reads(held):  # one on a server is opened by its first use
                held.workspace.close()
                raise StartError("the database cannot be read")
        self._held[kit] = held


def _reads(handlers: Handlers) -> bool:
    try:
        handlers.methods[LOOK]({})
    except RefusedError:
        return False
    return True


def policy_digest(folder: str) -> str:
    """Return the digest by which a token names the policy; raises `StartError`."""
    try:
        with open(os.path.join(folder, "policy.py"), "rb") as file:
            return sha256_hex(file.read())
    except OSError as error:
        text = f'the policy cannot be read ({error.strerror}): run "ralphgen regen"'
        raise StartError(text) from error
