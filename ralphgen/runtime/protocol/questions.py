"""The questions that a handshake connection has open: requests of ours that the client answers."""

from __future__ import annotations

import _thread

from .messages import line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .requests import RpcRequest

OURS = "ralphgen:question-"  # begins the id of each
PATIENCE = 600.0  # seconds in which a person should answer
SILENCE = {"action": "cancel"}


class OpenQuestions:
    """What was asked and is not answered yet.

    `send` writes a line. `again` has a request answered, with what was said in its parameters, on
    whichever thread.
    """

    __slots__ = ("_again", "_closed", "_count", "_open", "_send")

    def __init__(self, send: Callable[[bytes], None], again: Callable[[RpcRequest], None]) -> None:
        self._again = again
        self._closed = False
        self._count = 0
        self._open: dict[str, tuple[RpcRequest, str, Any]] = {}
        self._send = send

    def ask(self, request: RpcRequest, asked: Mapping[str, Any]) -> None:
        """Ask the client what a request needs, as `inputRequests` has it: one question."""
        ((key, question),) = asked.items()
        self._count += 1
        identity = f"{OURS}{self._count}"
        over = _thread.allocate_lock()
        over.acquire()
        self._open[identity] = request, key, over
        if self._closed:
            self._settle(identity, SILENCE)
            return

        def wait() -> None:
            if over.acquire(timeout=PATIENCE) or identity not in self._open:
                return
            try:
                self._take_back(identity)
            except OSError:
                return  # the client is gone, and whoever reads knows
            self._settle(identity, SILENCE)

        _thread.start_new_thread(wait, ())
        self._send(line({"jsonrpc": "2.0", "id": identity, **question}))

    def take(self, frame: Mapping[str, Any]) -> None:
        """Take a client's response; if it answers one of the questions, the request goes on."""
        identity, answer = frame.get("id"), frame.get("result")
        if type(identity) is str:
            self._settle(identity, answer if type(answer) is dict else SILENCE)

    def leave(self, request: int | str) -> None:
        """Want no answer to what a request needs: the client no longer waits for that."""
        for identity, (asking, _, over) in [*self._open.items()]:
            is_its = str(asking.identity) == str(request)
            if is_its and self._open.pop(identity, None) is not None:
                over.release()
                self._take_back(identity)

    def close(self) -> None:
        """Let what is not answered, or would be asked yet, have no answer: the client has left."""
        self._closed = True
        for identity in [*self._open]:
            self._settle(identity, SILENCE)

    def _take_back(self, identity: str) -> None:
        params = {"requestId": identity}
        self._send(line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))

    def _settle(self, identity: str, answer: Mapping[str, Any]) -> None:
        found = self._open.pop(identity, None)
        if found is None:
            return  # too late, or never asked
        request, key, over = found
        over.release()
        said = {**request.params.get("inputResponses", {}), key: answer}
        request.params["inputResponses"] = said
        self._again(request)
