"""Conversations with a project's server and with the official SDK, to be compared."""

import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

from driving import context_for, on_context
from mcp_types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

PROGRAM = Path(__file__).with_name("sdk_process.py")
PATIENCE = 60.0  # seconds; a server that needs them hangs
Frame = dict[str, Any]
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
CLOSED = -32000  # the SDK's word to requests that the end of input has overtaken
MOMENT = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?")


class Ground:
    """The files of a project besides its server, which conversations change."""

    def __init__(self, root: Path) -> None:
        """Remember the current files."""
        self.root = root
        self._files = {path: path.read_bytes() for path in self._paths()}

    def restore(self) -> None:
        """Restore the files."""
        for path in self._paths():
            if path not in self._files:
                path.unlink()
        for path, data in self._files.items():
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)

    def seen(self) -> dict[str, bytes]:
        """Return the files' contents by path, with every time replaced."""
        return {
            str(path.relative_to(self.root)): MOMENT.sub(b"<moment>", path.read_bytes())
            for path in self._paths()
            if path.suffix != ".db"
        }

    def _paths(self) -> list[Path]:
        server = self.root / ".ralph" / "mcp"
        return [
            path for path in self.root.rglob("*") if path.is_file() and server not in path.parents
        ]


class Talk:
    """A running server: bytes in, frames out."""

    def __init__(self, source: int, sink: int) -> None:
        """Writes to the server at `source` and reads from it at `sink`."""
        self._source = source
        self._frames: Queue[Frame | None] = Queue()
        Thread(target=self._read, args=(sink,), daemon=True).start()

    def send(self, data: bytes) -> None:
        """Write all of it; a server that is gone reads nothing."""
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._source, data) :]

    def frame(self) -> Frame | None:
        """The next frame; None at the end."""
        try:
            return self._frames.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError("the server is silent") from None

    def answers(self, number: int) -> Iterator[Frame]:
        """Yield frames until `number` requests are answered, including the frames in between."""
        while number:
            frame = self.frame()
            assert frame is not None, "the server has ended"
            number -= is_answer(frame)
            yield frame

    def leave(self) -> Iterator[Frame]:
        """Close the server's input; the frames that it still writes."""
        os.close(self._source)
        while (frame := self.frame()) is not None:
            yield frame

    def _read(self, sink: int) -> None:
        with open(sink, "rb") as stream:
            for line in stream:
                self._frames.put(json.loads(MOMENT.sub(b"<moment>", line)))
        self._frames.put(None)


class Servers:
    """Starts a project's server again and again, at the price of a fork."""

    def __init__(self, root: Path) -> None:
        """Serves the project at `root`."""
        self.ground = Ground(root)
        ours, theirs = socket.socketpair()
        folder = root / ".ralph" / "mcp"
        command = [sys.executable, str(PROGRAM), str(folder), str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self._orders = ours
        self._codes = ours.makefile("r")

    def close(self) -> None:
        """End it."""
        self._codes.close()
        self._orders.close()
        assert 0 == self._process.wait(PATIENCE)

    def session(self, recipe: str = "manual", kit: str = "ralph") -> tuple[str, ...]:
        """The arguments of a server for a session of the recipe."""
        path = self.ground.root / ".ralph" / "mcp" / f"{recipe}.json"
        if not path.exists():
            context_for(self.ground.root, recipe).rename(path)
        return kit, *on_context(path)

    @contextmanager
    def running(self, arguments: Sequence[str], *, by_sdk: bool = False) -> Iterator[Talk]:
        """A server, or the same kit behind the SDK; it must end with 0."""
        source, feed = os.pipe()
        drain, sink = os.pipe()
        with TemporaryFile() as errors:
            order = json.dumps({"arguments": [*arguments], "by_sdk": by_sdk})
            socket.send_fds(self._orders, [order.encode()], [source, sink, errors.fileno()])
            os.close(source)
            os.close(sink)
            yield Talk(feed, drain)
            code = int(self._codes.readline())
            errors.seek(0)
            said = errors.read().decode()
        assert 0 == code, said
        assert "Traceback" not in said

    def told(
        self, arguments: Sequence[str], pieces: Sequence[bytes], *, by_sdk: bool = False
    ) -> list[list[Frame]]:
        """Return, by piece, a server's answers to a client that waits for the answers to each.

        The remaining output after the input is closed comes last. The project is restored first.
        """
        self.ground.restore()
        found: list[list[Frame]] = []
        with self.running(arguments, by_sdk=by_sdk) as talk:
            begun = b""
            for piece in pieces:
                talk.send(piece)
                whole, mark, begun = (begun + piece).rpartition(b"\n")
                found.append(sorted_out(talk.answers(requests(whole + mark))))
            found.append(sorted_out(talk.leave()))
        return found


def sorted_out(frames: Iterator[Frame]) -> list[Frame]:
    """Return the frames that do not depend on timing."""
    return [frame for frame in frames if not is_chance(frame)]


def requests(data: bytes) -> int:
    """Return how many of the lines are answered: each request, and each invalid message."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")
    return sum(is_answered(line) for line in text)


def is_answered(line: str) -> bool:
    """Whether a line is a request by the SDK's own reading, or must be refused."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return bool(line.strip(" \t\r\n")) and not needs_no_answer(line)
    if isinstance(message, JSONRPCNotification):  # though it has an id, which is none
        return "id" in json.loads(line)
    return isinstance(message, JSONRPCRequest)


def needs_no_answer(line: str) -> bool:
    """Whether a line is a notification or a response, with something wrong in it."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(frame, dict):
        return False
    if isinstance(frame.get("method"), str):
        return "id" not in frame
    return "result" in frame or "error" in frame


def is_answer(frame: Frame) -> bool:
    """Return whether a frame is an awaited answer."""
    return "method" not in frame or frame["method"] == ACKNOWLEDGED


def is_chance(frame: Frame) -> bool:
    """Return whether a frame depends on timing."""
    return frame.get("method") == UPDATED or frame.get("error", {}).get("code") == CLOSED


def encode_frame(frame: object) -> bytes:
    """The line of a frame."""
    return json.dumps(frame, ensure_ascii=False).encode() + b"\n"


def line(method: str, params: object = None, **frame: object) -> bytes:
    """Return the line of a frame; `frame` holds its `id` if it is a request."""
    told = {"jsonrpc": "2.0", **frame, "method": method}
    if params is not None:
        told["params"] = params
    return encode_frame(told)
