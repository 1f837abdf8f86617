"""Takes turns on a kit's workspace: one piece of work at a time, on a worker thread."""

from __future__ import annotations

import _thread
import traceback

import anyio
from anyio import to_thread
from mcp import MCPError

from .errors import NotThereError, ToolError
from .log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class Turns:
    """The queue before one workspace, which belongs to one call at a time."""

    __slots__ = ("_in_order", "_name", "_one_at_a_time")

    def __init__(self, name: str) -> None:
        self._name = name
        self._in_order = anyio.CapacityLimiter(1)
        self._one_at_a_time = _thread.allocate_lock()  # held by work that was cancelled and runs on

    async def run(self, work: Callable[[], Result], uri: str | None = None) -> Result:
        """`work()` when its turn has come; whoever waits may leave, even while it runs.

        Raises `MCPError` for whatever goes wrong, with `uri` as its data: never a traceback.
        """
        wanted = True

        def turn() -> Result:
            with self._one_at_a_time:
                if not wanted:
                    raise ToolError("cancelled before it began")
                return self._guarded(work, uri)

        try:
            # A client that leaves must not wait for work that waits for the database.
            return await to_thread.run_sync(turn, limiter=self._in_order, abandon_on_cancel=True)
        finally:
            wanted = False

    def _guarded(self, work: Callable[[], Result], uri: str | None) -> Result:
        data = None if uri is None else {"uri": uri}
        try:
            return work()
        except MCPError:
            raise
        except NotThereError as error:
            raise MCPError(INVALID_PARAMS, str(error), data) from error
        except ToolError as error:
            raise MCPError(INTERNAL_ERROR, str(error), data) from error
        except Exception as error:
            log("error", self._name, {"uri": uri, "traceback": traceback.format_exc()})
            text = "the request failed inside the server: tell a person; the server's log says why"
            raise MCPError(INTERNAL_ERROR, text, data) from error
