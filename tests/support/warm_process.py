"""The command line with all of it imported already: a process that forks for each command.

    python warm_process.py SOCKET

Over the socket come four files: an order (a command's arguments, folder and environment as JSON)
and the command's standard streams; back goes its exit code. A command that runs next to the test is
not waited for here: its process id is returned, and the process that adopts orphans reaps it. A
command is a separate process, begins with a fresh copy of the imported modules, and ends as an
interpreter ends: exit handlers, `sys.excepthook` and all.
"""

import atexit
import gc
import json
import os
import pkgutil
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import ralphgen

EMITTED = ("runtime", "server")  # rooms of code that runs in servers, not in commands
LATE = (  # what Typer and the standard library import no sooner than when a command runs
    "encodings.unicode_escape",
    "importlib.resources.readers",
    "typer._adapters",
    "typer.rich_utils",
)


BESIDE = b"&"
"""What goes with the files of a command that nobody waits for here; "!" with others."""


def load() -> None:
    """Import every module that a command may import, and compile its templates."""
    for module in pkgutil.walk_packages(ralphgen.__path__, "ralphgen."):
        parts = module.name.split(".")
        if not set(parts).intersection(EMITTED) and parts[-1] != "__main__":
            import_module(module.name)
    for name in LATE:
        import_module(name)
    texts = import_module("ralphgen.rendering").templates()
    for name in texts.list_templates():
        if not name.startswith("board/"):
            texts.get_template(name)
    pages = import_module("ralphgen.board.render").environment()
    for name in pages.list_templates():
        pages.get_template(name)


def wait(orders: socket.socket) -> bool:
    """Serve orders until there is none; true in the process of a command, which is to run it."""
    while True:
        mark, files, *_ = socket.recv_fds(orders, 1, 4)
        if not mark:
            return False
        heard, told = os.pipe()
        child = os.fork()
        if not child:
            if mark == BESIDE and (command := os.fork()):
                os.write(told, b"%d\n" % command)
                os._exit(0)
            take_order(files)
            return True
        for file in (*files, told):
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        orders.send(os.read(heard, 16) if mark == BESIDE else b"%d\n" % code)
        os.close(heard)


def take_order(files: Sequence[int]) -> None:
    """Take streams, arguments, folder and environment of an order for this process."""
    with os.fdopen(files[0], encoding="utf-8") as stream:
        order: dict[str, Any] = json.load(stream)
    for number, file in enumerate(files[1:]):
        os.dup2(file, number)
    os.closerange(3, 256)
    if order["apart"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = order["arguments"]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    lines = 1 if os.environ.get("PYTHONUNBUFFERED") else -1
    sys.stdout = os.fdopen(1, "w", lines, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    streams = {"__stdin__": sys.stdin, "__stdout__": sys.stdout, "__stderr__": sys.stderr}
    vars(sys).update(streams)  # names that a checker takes for final


def run(main: Callable[[], None]) -> None:
    """Run a command, and end as an interpreter ends, without taking its modules apart.

    That would touch, and so copy, all memory that is shared with the process it was forked from.
    """
    code: str | int | None = None
    try:
        main()
    except SystemExit as end:
        code = end.code
    if threading.active_count() > 1 or isinstance(code, str):
        sys.exit(code)
    vars(atexit)["_run_exitfuncs"]()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # an interpreter reports it at its end
        sys.exit(code)
    os._exit(code or 0)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # like a console script
    load()
    main = import_module("ralphgen.cli.main").main
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        ordered = wait(orders)
        if ordered:
            orders.detach()
    if ordered:
        run(main)
