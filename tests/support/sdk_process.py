"""A project's server with the SDK loaded already: a process that forks for each conversation.

    python -I sdk_process.py FOLDER SOCKET

FOLDER is the emitted server's. Over the socket come the arguments of a server, how its front is to
be changed, and its three standard streams; back goes its exit code. The changes:

`{"first": N}`: it doubts every line after the first N; the SDK alone answers where that is 0.
`{"afresh": BOOL}`: it hands nothing over, and writes `{"line": NUMBER, "answer": FRAME}` for each
line that it answers; where it is true, each line is the first of a connection.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from types import ModuleType
from typing import Any

LONGEST = 1 << 16  # bytes of an order


def main() -> None:
    """Fork a server for each order, one after the other, until nobody gives any."""
    folder, number = sys.argv[1:]
    sys.path.insert(0, folder)
    kits = import_module("server").KITS
    for name in (
        "runtime.protocol.sdk_server",
        "runtime.protocol.handover",
        "runtime.start",
        "policy",
        *kits,
    ):
        import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(number)) as orders:
        while True:
            order, streams, *_ = socket.recv_fds(orders, LONGEST, 3)
            if not order:
                return
            orders.send(b"%d\n" % run(json.loads(order), streams, folder, kits))


def run(order: dict[str, Any], streams: Sequence[int], folder: str, kits: Sequence[str]) -> int:
    """The exit code of a server on these streams."""
    child = os.fork()
    if not child:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 256)
        serve(order, folder, kits)
    for stream in streams:
        os.close(stream)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def serve(order: dict[str, Any], folder: str, kits: Sequence[str]) -> None:
    """Be the server; never returns."""
    front = import_module("runtime.protocol.fast_path")
    if "first" in order["front"]:
        vars(front)["FastPath"] = reserved(front, order["front"]["first"])
    elif order["front"]:
        vars(front)["FastPath"] = probed(front, afresh=order["front"]["afresh"])
    code = import_module("runtime.start").start(order["arguments"], folder, kits)
    sys.stderr.flush()
    os._exit(code)


def reserved(front: ModuleType, first: int) -> type:
    """A front that doubts every line after the first ones."""
    answer = vars(front.FastPath)["_answer"]
    lines = count()

    def answer_first(self: object, line: bytes) -> bytes:
        if next(lines) >= first:
            raise front.DoubtError
        found: bytes = answer(self, line)
        return found

    return type("FastPath", (front.FastPath,), {"__slots__": (), "_answer": answer_first})


def probed(front: ModuleType, *, afresh: bool) -> type:
    """A front that tells which lines it answers, and how."""
    answer, handlers = vars(front.FastPath)["_answer"], vars(front.FastPath)["_handlers"]
    lines = count()

    def answer_each(self: Any, line: bytes) -> bytes:
        number = next(lines)
        if afresh:
            self.__init__(handlers.__get__(self))
        try:
            found = answer(self, line)
        except (front.DoubtError, front.DeferToSdkError, ValueError, RecursionError):
            return b""
        return b'{"line":%d,"answer":%b}\n' % (number, found.strip() or b"null")

    return type("FastPath", (front.FastPath,), {"__slots__": (), "_answer": answer_each})


if __name__ == "__main__":
    main()
