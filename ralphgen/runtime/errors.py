"""Errors of a server, and its log: one JSON object per line, on standard error."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000  # the SDK's own


class ToolError(Exception):
    """A failure that the agent can repair; its text gives the problem and the next step.

    `hint` is a command of the user that can help.
    """

    hint = ""


class RefusedError(Exception):
    """An answer that is an error of the protocol: `code`, `message` and, for some, `data`."""

    def __init__(
        self, code: int, message: str, data: Mapping[str, Any] | str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class DeferError(Exception):
    """A call would take long on the thread that reads requests; nothing was done for it."""


class StartError(Exception):
    """The server must not start: one line for stderr that names the fix (exit code 2)."""


def one_line(text: str) -> str:
    """Return the text with everything that could break or colour its line spelled as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def log_exception(logger: str, **data: object) -> None:
    """Write one line on the exception that is being handled, with its traceback."""
    import traceback

    log("error", logger, {**data, "traceback": traceback.format_exc()})


def log(level: str, logger: str, data: object) -> None:
    """Write one line; `level` is a syslog word of the protocol (info, warning, error).

    A terminal gets text, anything else JSON. A client that has closed standard error loses the
    line, and nothing else.
    """
    import _json  # `json` takes as long as half of a start

    try:
        if sys.stderr.isatty():
            text = f"{'note' if level == 'info' else level}: {_words(data)}"
        else:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            line = {"level": level, "logger": logger, "data": data, "timestamp": stamp}
            spell = _json.encode_basestring_ascii
            write = _json.make_encoder({}, str, spell, None, ": ", ", ", False, False, True)
            text = "".join(write(line, 0)).replace("\x7f", "\\u007f")
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def _words(data: object) -> str:
    """Return logged data as one line without terminal control characters."""
    if isinstance(data, dict):
        data = ", ".join(f"{name} {value}" for name, value in data.items())
    return one_line(str(data))


class CodedError(ToolError):
    """A failure with a kit-specific code, and facts about it as a JSON object.

    The kit's `refusals` determines how both are answered.
    """

    def __init__(self, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


class AskError(ToolError):
    """The call needs the user's answer to `question`; it is repeated with that answer.

    The text is the refusal if the user cannot be asked; it is empty if the call continues without.
    """

    def __init__(self, refusal: str, question: Any) -> None:
        super().__init__(refusal)
        self.question = question


class NotThereError(ToolError):
    """There is nothing of the URI, the cursor or the name that a client asked for."""


class ContextError(StartError):
    """The subject of a session is not in this project: only another session can start."""
