"""Standard streams and consoles on which no text steers the terminal."""

import io
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO, cast

# Control characters except tab and line end, marks of direction, line separators and surrogates.
_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Return text with each character that could steer a terminal as `\uNNNN`.

    A string of JSON or TOML with such a character keeps its value.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


class HarmlessStream:
    """A standard stream that escapes everything that is written to it.

    It has no `buffer`, since bytes would get past it. Consoles of rich, which write sequences for
    colours, take the stream below by the name `rich_proxied_file`.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream of the process."""
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text, escaped; return how many characters it had."""
        self.rich_proxied_file.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Let no output of this process steer a terminal."""
    for name in ("stdout", "stderr"):
        stream: IO[str] | None = getattr(sys, name)
        if stream is not None and not isinstance(stream, HarmlessStream):
            vars(sys)[name] = HarmlessStream(cast("TextIO", stream))
