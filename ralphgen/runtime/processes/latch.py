"""Something that happens once and can be waited for, by threads and by a signal's handler."""

from __future__ import annotations

import _thread


class Latch:
    """Opens once, for all who wait.

    An event of `threading` holds a lock of its own for a moment: a handler that interrupts its
    thread in that moment would wait for it for ever. Here nothing is held that another one needs.
    """

    __slots__ = ("_gate", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._gate = _thread.allocate_lock()
        self._gate.acquire()

    def open(self) -> None:
        """Say that it has happened; only one thread may, and once."""
        self.is_open = True
        self._gate.release()

    def wait(self, seconds: float = _thread.TIMEOUT_MAX) -> bool:
        """Wait until it has happened, for at most these seconds; whether it has."""
        if not self.is_open and self._gate.acquire(timeout=max(0, seconds)):
            self._gate.release()
        return self.is_open
