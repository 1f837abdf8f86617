"""Pages whose examples are typed in a shell, one after the other, and print the shown output."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from command_line import RALPHGEN, warm_process

SQLITE = f"""#!{sys.executable}
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.executescript(sys.argv[2] if len(sys.argv) > 2 else sys.stdin.read())
"""

TYPED = f"""#!{sys.executable} -IS
import array, json, os, sys, _socket
command = [{str(RALPHGEN)!r}, *sys.argv[1:]]
order = {{"arguments": command, "folder": os.getcwd(), "environment": dict(os.environ)}}
place = os.path.dirname(__file__)
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
asked.connect(f"{{place}}/typed")
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))
text = json.dumps(order).encode()
asked.sendmsg([len(text).to_bytes(4, "big")], [rights])
asked.sendall(text)
code = asked.recv(16).decode()
os._exit(int(code) % 256) if code else os.execv(command[0], command)
"""
"""What stands for `ralphgen` where pages are typed: it has the test run what it is called with."""


def commands(page: str) -> Iterator[tuple[str, str | None]]:
    """Yield each command of the page with its output, None if none is shown."""
    for _, kind, text in re.findall(r"(?ms)^(`{3,})(console|sh)\n(.*?)^\1$", page):
        if kind == "sh":
            yield text, None
            continue
        for one in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", one)
            assert command is not None
            yield command[0], one[command.end() :]


@contextmanager
def typed_commands() -> Iterator[str]:
    """Yield a PATH that begins with a `ralphgen` whose runs are forks of the warm process.

    If that is busy, as for a command that runs next to another, the run is a new interpreter.
    """
    with (
        TemporaryDirectory(prefix="typed-") as folder,  # the path of a socket may not be long
        socket.socket(socket.AF_UNIX) as listening,
    ):
        program = Path(folder, "ralphgen")
        program.write_text(TYPED, encoding="utf-8")
        program.chmod(0o755)
        listening.bind(f"{folder}/typed")
        listening.listen()
        Thread(target=take_orders, args=(listening,), daemon=True).start()
        try:
            yield os.pathsep.join((folder, str(RALPHGEN.parent), os.environ["PATH"]))
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def take_orders(listening: socket.socket) -> None:
    """Answer each run of a typed command until there are no more."""
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:
            return
        Thread(target=run_typed, args=(asked,), daemon=True).start()


def run_typed(asked: socket.socket) -> None:
    """Run a request and answer its exit code, or nothing if it cannot be run here."""
    with asked, warm_process().free() as free:
        length, streams, *_ = socket.recv_fds(asked, 4, 3)
        text = b""
        while len(text) < int.from_bytes(length, "big"):
            text += asked.recv(1 << 16)
        if free:
            order = json.loads(text)
            folder = Path(order["folder"])
            warm_process().start(order["arguments"], folder, order["environment"], streams)
        for stream in streams:
            os.close(stream)
        if free:
            asked.sendall(b"%d" % warm_process().end())


def type_in_one_shell(page: str, folder: Path, place: Path) -> Path:
    """Type the examples of a page in one shell, which ends the programs that they start.

    Returns the last directory; fails if the output is not the shown one. Exports stay in effect.
    """
    typed = [*commands(page)]
    lines = ["set -e", f"trap 'pwd > {folder}/place; kill $(jobs -p) 2> /dev/null; wait' EXIT"]
    script = "\n".join([*lines, *(command for command, _ in typed)])
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RALPH_")}
    path = os.pathsep.join((str(RALPHGEN.parent), os.environ["PATH"]))
    more = {"COLUMNS": "80", "PYTHONUNBUFFERED": "1", "PATH": path}
    done = subprocess.run(
        [str(shutil.which("bash")), "-c", script],
        cwd=place,
        env={**kept, **more, "XDG_CONFIG_HOME": str(folder / "settings")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        check=False,
    )
    expected = "".join(shown or "" for _, shown in typed)
    printed = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())

    assert OutputChecker().check_output(expected, printed, ELLIPSIS), printed
    return Path((folder / "place").read_text(encoding="utf-8").strip())


def type_page(page: str, folder: Path, place: Path) -> int:
    """Type the examples of a page in `place`, with `folder` for the rest of the user's machine.

    Returns the number of examples; fails at the first with an output other than the shown one.
    """
    if shutil.which("sqlite3") is None:  # a machine may lack its shell, which people have
        (folder / "sqlite3").write_text(SQLITE, encoding="utf-8")
        (folder / "sqlite3").chmod(0o755)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RALPH_")}
    variables = {**kept, "XDG_CONFIG_HOME": str(folder / "settings"), "COLUMNS": "80"}
    variables["PYTHONUNBUFFERED"] = "1"  # keeps the order of a terminal's output
    count = 0
    with typed_commands() as path:
        variables["PATH"] = os.pathsep.join((path, str(folder)))
        for command, expected in commands(page):
            script = f"set -e; trap 'pwd > {folder}/place' EXIT\n{command}"
            done = subprocess.run(
                [str(shutil.which("bash")), "-c", script],
                cwd=place,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                encoding="utf-8",
                check=False,
            )
            said = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
            shown = OutputChecker().check_output(expected or "", said, ELLIPSIS)

            assert shown or expected is None, f"{command}{said}"
            assert expected is not None or 0 == done.returncode, f"{command}{said}"
            place = Path((folder / "place").read_text(encoding="utf-8").strip())
            count += 1
    return count
