"""Answers lines that are not messages, as JSON-RPC has it: with the problem and the id."""

from __future__ import annotations

import re

from ..encoding import BLANKS, NESTED, JsonReader, too_deep
from ..errors import INVALID_REQUEST, PARSE_ERROR, RefusedError
from .messages import half_pair, refusal_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


LONGEST_INTEGER = 4300  # of an integer; Python reads no longer ones
FIRST_INEXACT = 2**53  # from here on a floating-point number is not the integer that was written
TOO_DEEP = f"the message is nested more than {NESTED} levels deep"
UNREADABLE = "the message cannot be read"
# Parts that decide the depth of a part of a text, and the value of an id.
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_IDENTITY = re.compile(r'\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,400})\s*[,}]')


def refused(line: bytes) -> bytes | None:
    """Return the line that refuses a line; None if the line is a request.

    It is empty if the line needs no answer: a blank one, a notification or a response.
    """
    text = line.decode("utf-8", "replace")
    if not text.strip(BLANKS):
        return b""
    long: list[str] = []

    def integer(digits: str) -> int | None:
        if len(digits) <= LONGEST_INTEGER:
            return int(digits)
        long.append(digits)
        return None

    try:
        frame = JsonReader(integer=integer).read(text)
    except RecursionError:
        return _refused(text, INVALID_REQUEST, TOO_DEEP)
    except ValueError as error:
        return _refused(text, PARSE_ERROR, f"the line is not valid JSON: {error}")
    if type(frame) is dict and _needs_no_answer(frame):
        return b""
    problem = _problem(frame)
    if not problem and long:
        problem = f"an integer has more than {LONGEST_INTEGER:,} digits"
    if not problem:
        return None
    identity = frame.get("id") if type(frame) is dict else None
    return refusal_line(_echoed(identity), RefusedError(INVALID_REQUEST, problem))


def unreadable(line: bytes) -> bytes:
    """Return the line that refuses a line with an unknown problem."""
    return _refused(line.decode("utf-8", "replace"), INVALID_REQUEST, UNREADABLE)


def _problem(frame: Any) -> str:
    """Return the reason why a value is not a message; empty if it is one."""
    if type(frame) is list:
        return "batches are not supported: send one message per line"
    if type(frame) is not dict:
        return "a message must be a JSON object"
    problems = {
        '"jsonrpc" must be "2.0"': frame.get("jsonrpc") != "2.0",
        '"method" must be a string': type(frame.get("method")) is not str,
        '"id" must be a string or an integer': type(frame.get("id", "")) not in (int, str),
        '"params" must be an object': type(frame.get("params")) not in (dict, type(None)),
        TOO_DEEP: too_deep(frame),
    }
    problem = next((text for text, holds in problems.items() if holds), "")
    if not problem and (half := half_pair(frame)):
        return f"a string contains {half}, half of a surrogate pair: send well-formed Unicode"
    return problem


def _needs_no_answer(frame: dict[str, Any]) -> bool:
    """Return whether an object is a response, or a notification."""
    if type(frame.get("method")) is str:
        return "id" not in frame
    return "result" in frame or "error" in frame


def _refused(text: str, code: int, problem: str) -> bytes:
    return refusal_line(_echoed(_identity(text)), RefusedError(code, problem))


def _identity(text: str) -> Any:
    """Return the id in a text that is not JSON, or too deep; None if it has no clear id."""
    depth = 0
    for part in _PARTS.finditer(text):
        if part[0] in ("{", "["):
            depth += 1
        elif part[0] in ("}", "]"):
            depth -= 1
        elif depth == 1 and part[0] == '"id"':
            found = _IDENTITY.match(text, part.end())
            return _value(found[1]) if found else None
    return None


def _value(text: str) -> Any:
    try:
        return JsonReader().read(text)
    except ValueError:
        return None


def _echoed(identity: Any) -> int | str | None:
    """Return an id that a client can have back: a text, an integer, or None for any other."""
    if type(identity) is float and abs(identity) < FIRST_INEXACT and identity.is_integer():
        return int(identity)
    if type(identity) not in (int, str) or half_pair(identity):
        return None
    found: int | str = identity
    return found
