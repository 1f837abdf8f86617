"""The transcript that `launch` keeps of a session, read by the reader of its agent."""

import os
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from ralphgen.agents.adapters import NamedReader, find_agent
from ralphgen.agents.agent import (
    CALL_LINE,
    FAILURE_LINE,
    AgentLine,
    OutputReader,
    Usage,
    call_line,
    failure_line,
    read_event,
)
from ralphgen.errors import RalphgenError
from ralphgen.kits.registry import read_settings
from ralphgen.runtime.files import AT_ONCE, NO_LINK
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.sessions.store import TRANSCRIPT, session_folder

PIECE = 1024 * 1024  # bytes read at once, and of the longest line that is read
MOST_BYTES = 16 * PIECE  # at the end of a transcript
MOST_ENTRIES = 2_000
MOST_CALLS = 500  # of one entry
MOST_STREAMS = 64  # that are remembered


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """Words of an agent, or else the calls between them; `key` identifies it in its transcript."""

    key: str
    words: str = ""
    calls: tuple[str, ...] = ()


class SessionStream:
    """Follows the log of a session: each line of it is parsed once, however often it is read.

    `entries` are the newest ones, `calls` counts all. Any thread may call `read`.
    """

    def __init__(self, path: Path, reader: Callable[[], OutputReader]) -> None:
        """Follow the log at `path`; `reader` makes what parses its lines."""
        self._path = path
        self._make = reader
        self._reading = Lock()
        self._file = (0, 0)
        self._at = 0
        self._rest = b""
        self._skips = False  # the rest of a line: one too long, or cut off at its beginning
        self._begin(0)

    @property
    def usage(self) -> Usage:
        """The turns, tokens and cost that the agent has reported until now."""
        return self._reader.usage

    def read(self) -> "SessionStream":
        """Take note of the lines that were added; a missing log has none."""
        with self._reading:
            try:
                file = os.open(self._path, os.O_RDONLY | AT_ONCE | NO_LINK)
            except OSError:
                return self
            with closing(os.fdopen(file, "rb", buffering=0)) as log:
                state = os.fstat(file)
                if (state.st_dev, state.st_ino) != self._file or state.st_size < self._at:
                    self._file = state.st_dev, state.st_ino
                    self._begin(max(0, state.st_size - MOST_BYTES))
                log.seek(self._at)
                while piece := log.read(PIECE):
                    self._feed(piece)
        return self

    def _begin(self, at: int) -> None:
        self._reader = self._make()
        self._at, self._rest, self._skips = at, b"", at > 0
        self.entries: deque[StreamEntry] = deque(maxlen=MOST_ENTRIES)
        self.calls = 0

    def _feed(self, piece: bytes) -> None:
        start = self._at - len(self._rest)
        self._at += len(piece)
        *lines, rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if not self._skips and len(line) <= PIECE:
                self._take(start, line)
            self._skips = False
            start += len(line) + 1
        self._skips = self._skips or len(rest) > PIECE
        self._rest = b"" if self._skips else rest

    def _take(self, at: int, text: bytes) -> None:
        line = self._reader.parse_line(text.decode(errors="replace"))
        words: list[str] = []
        for number, one in enumerate(() if line is None else line.texts):
            shown = one.strip()
            if line is not None and line.tool and shown.startswith(CALL_LINE):
                self._say(f"w{at}-{number}", words)
                self.calls += 1
                self._call(f"c{at}-{number}", shown.removeprefix(CALL_LINE))
            elif shown.startswith(FAILURE_LINE):
                self._call(f"c{at}-{number}", shown)
            else:
                words.append(one)
        self._say(f"w{at}", words)

    def _say(self, key: str, words: list[str]) -> None:
        if text := "\n".join(words).strip():
            self.entries.append(StreamEntry(key, text))
        words.clear()

    def _call(self, key: str, text: str) -> None:
        """Add a call, to the ones just before it."""
        last = self.entries[-1] if self.entries else StreamEntry("")
        if last.calls and len(last.calls) < MOST_CALLS:
            self.entries[-1] = StreamEntry(last.key, "", (*last.calls, text))
        else:
            self.entries.append(StreamEntry(key, "", (text,)))


class CallsReader(OutputReader):
    """Reads the log that the servers of a session keep of their calls."""

    def take(self, line: str) -> AgentLine | None:
        """Return a call, and its refusal; None for another line."""
        call = read_event(line)
        if call is None:
            return None
        tool = str(call.get("tool"))
        texts = [call_line(tool, {})]
        if call.get("ok") is not True:
            texts.append(failure_line(tool, str(call.get("refusal") or "?")))
        return AgentLine(line, tuple(texts), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Do nothing: it has no agent."""


class Streams:
    """The streams of the sessions of a project; each line of them is parsed once."""

    def __init__(self, root: Path) -> None:
        """Follow none yet in the project in `root`."""
        self._root = root
        self._keeping = Lock()
        self._known: OrderedDict[tuple[str, str], SessionStream] = OrderedDict()

    def of(self, session_id: str, agent: str) -> SessionStream | None:
        """Return a session's current stream; None if its files are not on this machine.

        Without a transcript, these are the calls of its servers.
        """
        folder = session_folder(self._root, session_id)
        if folder is None:
            return None
        log = TRANSCRIPT if (folder / TRANSCRIPT).exists() else CALLS
        with self._keeping:
            stream = self._known.get((session_id, log))
            if stream is None:
                reader = CallsReader if log == CALLS else lambda: self._reader(agent)
                stream = self._known[session_id, log] = SessionStream(folder / log, reader)
                if len(self._known) > MOST_STREAMS:
                    self._known.popitem(last=False)
        return stream.read()

    def _reader(self, agent: str) -> OutputReader:
        """Return the reader of an agent's output; an unknown agent is assumed to write lines."""
        with suppress(RalphgenError):
            return find_agent(agent, read_settings(self._root)).reader(None)
        return NamedReader()
