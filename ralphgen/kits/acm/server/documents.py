"""Hands out documents: the text as it is, cut only where an answer would grow too long."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError, one_line

from .paths import UnreadableError, read_text

MOST = 40_000  # characters of an answer
_NOTE = 300  # of them for the note on what was cut
LONGEST_NAME = 150


def document(base: str, name: str, kind: str) -> str:
    """The whole text of a document below `base`; `kind` says in words what it is.

    Raises `ToolError` where it cannot be read; only its place below `base` is shown.
    """
    try:
        return read_text(base, name)
    except UnreadableError as error:
        advice = "add the file, or have ACM_ROOT name documents that hold it"
        if not error.missing:
            advice = "ask a person to mend that"
        raise ToolError(f'the {kind} "{name}" {error.why}: {advice}') from error


def fitted(text: str, name: str, room: int = MOST) -> str:
    """The text, or as much of it as there is room for, with a note on the rest.

    `name` is the place of its document below the root.
    """
    if len(text) <= room:
        return text
    kept = max(room - _NOTE, 0)
    left = len(text) - kept
    note = f'[cut here: {left:,} more characters stand in "{brief(name, LONGEST_NAME)}"]'
    return f"{text[:kept]}\n\n{note}\n"


def brief(text: str, most: int) -> str:
    """Text of others on one line, cut where it is longer than `most`."""
    line = one_line(" ".join(text[: 8 * most].split()))
    return f"{line[:most]}…" if len(line) > most or len(text) > 8 * most else line
