"""A project's server with the SDK loaded already: a process that forks for each conversation.

    python -I sdk_process.py FOLDER SOCKET

FOLDER is the emitted server's. Over the socket come the arguments of a server, how its front is to
be changed, and its three standard streams; back goes its exit code. The changes:

`{"first": N}`: it doubts every line after the first N; the SDK alone answers where that is 0.
`{"afresh": BOOL}`: it hands nothing over, and writes `{"line": NUMBER, "answer": FRAME}` for each
line that it answers at once; where it is true, each line is the first of a connection.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

LONGEST = 1 << 16  # bytes of an order


def main() -> None:
    """Fork a server for each order, one after the other, until nobody gives any."""
    folder, number = sys.argv[1:]
    sys.path.insert(0, folder)
    kits = import_module("server").KITS
    for name in (
        "runtime.protocol.sdk_server",
        "runtime.protocol.connection",
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
    module = import_module("runtime.protocol.connection")
    if "first" in order["front"]:
        vars(module)["Connection"] = reserved(module, order["front"]["first"])
    elif order["front"]:
        vars(module)["Connection"] = probed(module, afresh=order["front"]["afresh"])
    code = import_module("runtime.start").start(order["arguments"], folder, kits)
    sys.stderr.flush()
    os._exit(code)


def reserved(module: ModuleType, first: int) -> type:
    """A connection whose fast path doubts every line after the first ones."""
    take = vars(module.Connection)["_take"]
    lines = count()

    def take_first(self: Any, line: bytes) -> None:
        if next(lines) < first:
            take(self, line)
        else:
            self._leave(line)

    return type("Connection", (module.Connection,), {"__slots__": (), "_take": take_first})


def probed(module: ModuleType, *, afresh: bool) -> type:
    """A connection whose fast path tells which lines it answers, and how."""
    take, handlers = vars(module.Connection)["_take"], vars(module.Connection)["_handlers"]
    numbers, doubted, told = count(), [False], [b""]

    def doubt(*_asked: object, **_how: object) -> None:
        doubted[0] = True

    def hear(line: bytes) -> None:
        told[0] = line.strip()

    def take_each(self: Any, line: bytes) -> None:
        number, wire = next(numbers), self._wire
        if afresh:
            self._fast_path = module.FastPath(handlers.__get__(self))
        doubted[0], told[0] = False, b"null"
        self._wire = SimpleNamespace(send=hear)
        take(self, line)
        self._wire = wire
        if not doubted[0]:
            wire.send(b'{"line":%d,"answer":%b}\n' % (number, told[0]))

    members = {"__slots__": (), "_defer": doubt, "_leave": doubt, "_take": take_each}
    return type("Connection", (module.Connection,), members)


if __name__ == "__main__":
    main()
