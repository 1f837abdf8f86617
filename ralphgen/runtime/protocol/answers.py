"""Parts that few answers need: their schemas in `tools/list`, and the log of a session's calls."""

from __future__ import annotations

import time

from ..deferred import DeferredResult, call_began
from ..encoding import write_json
from ..errors import RefusedError
from ..files import AT_ONCE, NO_LINK
from ..system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Answer = dict[str, Any] | DeferredResult

SCHEMA_SHARE = 4  # schemas add at most this fraction of the list: agents read it in every turn


def add_schemas(entries: Sequence[dict[str, Any]], schemas: Mapping[str, Any]) -> None:
    """Add the schemas, by name of the tool, to the entries, in their order.

    A schema that no longer fits is left out.
    """
    room = _size(entries) // SCHEMA_SHARE
    for entry in entries:
        added = {"outputSchema": schemas.get(entry["name"])}
        size = _size(added) - 1  # a comma in place of the braces
        if added["outputSchema"] and size <= room:
            entry.update(added)
            room -= size


def _size(value: object) -> int:
    return len(write_json(value).encode())


LOG_FILE = "calls.jsonl"
LONGEST_REFUSAL = 500  # characters of a refusal
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | AT_ONCE | NO_LINK


class CallLog:
    """The file of one session, which the servers of all its kits write to.

    A line is one write. If it cannot be written immediately, calls continue without.
    """

    __slots__ = ("_file", "_kit")

    def __init__(self, folder: str, kit: str) -> None:
        self._kit = kit
        try:
            self._file = os.open(os.path.join(folder, LOG_FILE), APPEND, 0o600)
        except OSError:
            self._file = -1

    def recorded(self, tool: str, work: Callable[[], Answer]) -> Answer:
        """Return the answer of a call, with a line on it once it is there."""
        arrived = call_began()
        try:
            answer = work()
        except RefusedError as error:
            self._add(tool, arrived, str(error), 0)
            raise
        if not isinstance(answer, DeferredResult):
            self._add_answer(tool, arrived, answer)
            return answer
        outcome = answer.outcome

        def settled() -> dict[str, Any]:
            result: dict[str, Any] = outcome()
            self._add_answer(tool, arrived, result)
            return result

        return DeferredResult(settled, answer.leave, finishes=answer.finishes)

    def _add_answer(self, tool: str, arrived: float, answer: dict[str, Any]) -> None:
        if "content" not in answer:  # the user is asked first
            return
        text = answer["content"][0]["text"]
        self._add(tool, arrived, text if answer["isError"] else None, len(text.encode()))

    def _add(self, tool: str, arrived: float, refusal: str | None, size: int) -> None:
        if self._file < 0:
            return
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "kit": self._kit,
            "tool": tool,
            "ms": round((time.monotonic() - arrived) * 1000, 1),
            "bytes": size,
            "ok": refusal is None,
        }
        if refusal is not None:
            line["refusal"] = refusal[:LONGEST_REFUSAL]
        try:
            os.write(self._file, f"{write_json(line)}\n".encode("utf-8", "replace"))
        except OSError:
            self._file = -1
