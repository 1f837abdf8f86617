"""What an agent says and calls in its session, from the two logs in the session's folder."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralphgen.agents.agent import OutputReader, Usage
from ralphgen.agents.registry import NamedReader, find_agent
from ralphgen.board.agents.lines import LogPage, page_of_log
from ralphgen.board.stored_text import line, paragraph
from ralphgen.errors import RalphgenError
from ralphgen.kits.registry import read_settings
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.sessions.store import TRANSCRIPT

LONG_WORDS = 4_000  # characters of what is said at once


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """Which part of a session's stream is asked for: what stands before these places in its logs.

    None stands for the end, where what is new comes.
    """

    words: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class SaidLine:
    """What an agent has said at once, or the `tool` that it calls; `at` tells it from others."""

    at: int
    text: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call of a tool of the session's servers; `refusal` is empty where it was answered."""

    at: int
    time: str
    kit: str
    tool: str
    took: str
    refusal: str


@dataclass(frozen=True, slots=True)
class SessionStream:
    """Words and calls, the newest first; `older_…` are the places before which older ones stand.

    They are 0 where there are none. `at_end` says that nothing newer is left out.
    """

    words: tuple[SaidLine, ...]
    calls: tuple[CallLine, ...]
    older_words: int
    older_calls: int
    at_end: bool


def session_stream(root: Path, folder: Path, agent: str, asked: StreamQuery) -> SessionStream:
    """Return a page of what was said and called in the session of a folder, by an agent's name."""
    said = page_of_log(folder / TRANSCRIPT, asked.words)
    called = page_of_log(folder / CALLS, asked.calls)
    words = tuple(_said(said, _reader(root, agent)))
    return SessionStream(
        words=words[::-1],
        calls=tuple(_calls(called))[::-1],
        older_words=said.first,
        older_calls=called.first,
        at_end=said.newest and called.newest,
    )


def used_so_far(root: Path, folder: Path, agent: str) -> Usage:
    """Return what an agent has said by now of its turns, tokens and cost."""
    reader = _reader(root, agent)
    for _ in _said(page_of_log(folder / TRANSCRIPT, None), reader):
        pass
    return reader.usage


def _reader(root: Path, agent: str) -> OutputReader:
    """Return what reads the output of an agent; one that nobody knows by now wrote lines."""
    with suppress(RalphgenError):
        return find_agent(agent, read_settings(root)).reader(None)
    return NamedReader()


def _said(page: LogPage, reader: OutputReader) -> Iterator[SaidLine]:
    for at, text in page.lines:
        found = reader.taken(text.decode(errors="replace"))
        if found is not None and found.texts:
            yield SaidLine(at, paragraph("\n".join(found.texts), LONG_WORDS), line(found.tool))


def _calls(page: LogPage) -> Iterator[CallLine]:
    for at, text in page.lines:
        with suppress(ValueError, RecursionError, OverflowError):
            call = json.loads(text)
            if isinstance(call, dict):
                took = call.get("ms")
                yield CallLine(
                    at=at,
                    time=line(call.get("time")),
                    kit=line(call.get("kit")),
                    tool=line(call.get("tool")),
                    took=f"{took:,.1f} ms" if isinstance(took, int | float) else "",
                    refusal="" if call.get("ok") is True else paragraph(call.get("refusal") or "?"),
                )
