"""Tells what has become of an item that was executed, in the one shape of such answers."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError

from .answers import bounded, facts, last_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .reading import Link


class Report:
    """What is to be told of one call, whatever comes of it.

    `warnings` grows as the call goes on; `chain` is empty until it is known, and for what has none.
    """

    __slots__ = ("_link", "_policy", "_started", "chain", "warnings")

    def __init__(self, link: Link, policy: str, started: float) -> None:
        self._link = link
        self._policy = policy
        self._started = started
        self.warnings = list(link.verdict.warnings)
        self.chain: list[Link] = []

    def answer(self, status: str, **parts: Any) -> dict[str, Any]:
        """The answer of a call that went well."""
        about = {"status": status, "type": self._link.item.type}
        return bounded({**about, **self._place(), **parts, **self._further()})

    def failure(self, error: CodedError) -> CodedError:
        """The error of a call that went wrong, with what is known of the call."""
        found = dict(error.facts)
        if "details" in found:
            found["details"] = _told(found["details"])
        told = {"item_type": self._link.item.type, **self._place(), **found, **self._further()}
        return CodedError(error.code, str(error), **facts(told, str(error)))

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._link.item.id, "source": self._link.item.source}

    def _further(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "duration_ms": int((time.monotonic() - self._started) * 1000),
            "policy": self._policy,
            "signature": self._link.verdict.state,
        }
        if self.warnings:
            metadata["warnings"] = list(dict.fromkeys(self.warnings))
        chain = [link.entry() for link in self.chain]
        return {"chain": chain, "metadata": metadata} if chain else {"metadata": metadata}


def _told(details: dict[str, Any]) -> dict[str, Any]:
    """The details of a failure; of a standard error its end, where it says what went wrong."""
    written = details.get("stderr")
    if not isinstance(written, str) or last_of(written) == written:
        return details
    return {**details, "stderr": last_of(written), "stderr_truncated": True}
