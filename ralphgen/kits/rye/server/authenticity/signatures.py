"""Reads and writes the line of a signature in an item's text, and says what it signs.

Only one spelling of the line is a signature, at one place only: whatever the line leaves out of
what is signed, nobody can use to say something. Everything else is text like any other.
"""

from __future__ import annotations

import re

from ralphgen.runtime.values.encoding import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGNED, VALIDATED = "signed", "validated"  # by a key; by nobody, which anyone can do
MARKDOWN = ".md"
VERSION = "rye-signature-1"  # of what a key signs
LONGEST_STALE = 4_000  # characters of a line that looks like a signature and is none

_BOM = "\ufeff"
# 64 bytes as base64 leave the last letter four spare bits: unless they are zero, it is another
# spelling of the same signature.
_PAYLOAD = (
    r"rye:(?:(?P<form>signed)|validated)"
    r":(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
    r":(?P<hash>[0-9a-f]{64})"
    r"(?(form):(?P<signature>[A-Za-z0-9_-]{85}[AQgw]==):(?P<fingerprint>[0-9a-f]{16}))"
)
_END = r"(?P<end>\r?\n|\Z)"
_COMMENT = re.compile(f"# {_PAYLOAD}{_END}")
_HTML_COMMENT = re.compile(f"<!-- {_PAYLOAD} -->{_END}")
# Neither may hold an end of line of any kind, or the end of its comment: that would be text.
_STALE = r"(?:rye:signed|rye:validated|kiwi-mcp:validated):"
_STALE_COMMENT = re.compile(rf"#[ \t]*{_STALE}[ -~\t]{{0,{LONGEST_STALE}}}{_END}")
_STALE_HTML_COMMENT = re.compile(
    rf"<!--[ \t]*{_STALE}[ -=?-~\t]{{0,{LONGEST_STALE}}}-->[ \t]*{_END}"
)


class Signature:
    """The parts of a signature's line.

    `form` is `SIGNED` or `VALIDATED`; the second has neither `signature` nor `fingerprint`.
    """

    __slots__ = ("fingerprint", "form", "hash", "signature", "timestamp")

    def __init__(
        self, digest: str, timestamp: str, *, signature: str = "", fingerprint: str = ""
    ) -> None:
        self.form = SIGNED if signature else VALIDATED
        self.hash = digest
        self.timestamp = timestamp
        self.signature = signature
        self.fingerprint = fingerprint

    @property
    def payload(self) -> str:
        """Return its line, without what makes that a comment."""
        parts = ["rye", self.form, self.timestamp, self.hash]
        return ":".join([*parts, self.signature, self.fingerprint] if self.signature else parts)

    def info(self) -> dict[str, Any]:
        """Return what an answer says of it; `fingerprint` is None where nobody signed."""
        return {
            "form": self.form,
            "timestamp": self.timestamp,
            "hash": self.hash,
            "fingerprint": self.fingerprint or None,
        }


def line_of(signature: Signature, extension: str) -> str:
    """Return a signature as a comment line, without its end, of a file with this extension."""
    payload = signature.payload
    return f"<!-- {payload} -->" if extension == MARKDOWN else f"# {payload}"


def split(text: str, extension: str) -> tuple[Signature | None, str]:
    """Return the signature of a text and the rest of it; None and the whole text for none."""
    pattern = _HTML_COMMENT if extension == MARKDOWN else _COMMENT
    found = pattern.match(text, _place(text, extension))
    if found is None:
        return None, text
    parts = found.groupdict()
    signature = Signature(
        parts["hash"],
        parts["timestamp"],
        signature=parts["signature"] or "",
        fingerprint=parts["fingerprint"] or "",
    )
    bare = _without(text, found)
    # A line that would not be put there, as one before a shebang, is none.
    again = with_line(bare, extension, line_of(signature, extension))
    return (signature, bare) if _normal(again) == _normal(text) else (None, text)


def with_line(bare: str, extension: str, line: str) -> str:
    """Return the text with a line at its beginning, after a shebang; `split` takes it out again.

    The line ends as the first one of the text does.
    """
    place = _place(bare, extension)
    if place > 1 and not bare.endswith("\n", 0, place):  # a shebang, and nothing after it
        return f"{bare}\n{line}"
    first = bare.find("\n")
    newline = "\r\n" if first > 0 and bare[first - 1] == "\r" else "\n"
    return bare[:place] + line + newline + bare[place:]


def without_stale(bare: str, extension: str) -> str:
    """Return what `split` leaves, without lines like signatures that stand where one would.

    To sign adds a line, and must not pile them up.
    """
    pattern = _STALE_HTML_COMMENT if extension == MARKDOWN else _STALE_COMMENT
    while found := pattern.match(bare, _place(bare, extension)):
        bare = _without(bare, found)
    return bare


def digest_of(bare: str) -> str:
    """Return the sha256 of a text without its signature, the same however its lines end."""
    return sha256_hex(_normal(bare).encode())


def message_of(item_type: str, item_id: str, digest: str, timestamp: str) -> bytes:
    """Return what a key signs: that this text, under this name, was signed at this time."""
    return f"{VERSION}\n{item_type}\n{item_id}\n{digest}\n{timestamp}".encode()


def _normal(text: str) -> str:
    """Return the text with the ends of lines that do not count as a change."""
    return text.replace("\r\n", "\n")


def _place(text: str, extension: str) -> int:
    """Return where a signature's line stands: after a byte order mark, and a tool's shebang."""
    start = int(text.startswith(_BOM))
    if extension == MARKDOWN or not text.startswith("#!", start):
        return start
    return text.find("\n") + 1 or len(text)


def _without(text: str, found: re.Match[str]) -> str:
    """Return the text without a line; where that ended the text, without the line end before it."""
    before = text[: found.start()]
    return (before if found["end"] else before.removesuffix("\n")) + text[found.end() :]
