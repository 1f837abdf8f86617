"""A project's server that forks for each conversation, with the official SDK loaded already.

    python sdk_process.py FOLDER SOCKET

FOLDER is the emitted server's. Over the socket come the arguments of a server, whether the SDK
answers instead of our own protocol, and its three standard streams; back goes its exit code.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from emitted_runtime import use_emitted_runtime

LONGEST = 1 << 16  # bytes of an order


def main() -> None:
    """Fork a server for each order, one after the other, until the socket is closed."""
    folder, number = sys.argv[1:]
    sys.path.insert(0, folder)
    kits = import_module("server").KITS
    for name in ("runtime.protocol.connection", "runtime.start", "policy", *kits):
        import_module(name)
    use_emitted_runtime()
    import_module("sdk_server")
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
    if order["by_sdk"]:
        connection = import_module("runtime.protocol.connection")
        vars(connection)["Connection"] = import_module("sdk_server").SdkConnection
    code = import_module("runtime.start").start(order["arguments"], folder, kits)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
