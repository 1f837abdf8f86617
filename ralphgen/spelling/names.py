"""Turns any text into a legal name, so that two texts never give the same one."""

import re
from dataclasses import dataclass
from hashlib import sha256

LONGEST = 64  # characters of a name
DIGEST = 24  # hex digits that tell names apart that are cut


@dataclass(frozen=True, slots=True)
class _Escape:
    """A spelling in which each text has a name of its own.

    A name that is illegal, reserved or begins like an escape becomes the letter x, the separator,
    and the text, where the separator is doubled and each illegal character is its code in hex
    between separators. What is longer than 64 characters is cut and marked by two letters x.
    """

    legal: re.Pattern[str]
    separator: str
    kept: str

    def name(self, text: str, *, reserved: bool = False) -> str:
        """Return the name of `text`."""
        marked = text.startswith((f"x{self.separator}", f"xx{self.separator}"))
        if self.legal.fullmatch(text) and not reserved and not marked:
            name = text
        else:
            name = f"x{self.separator}{''.join(map(self._spelled, text))}"
        return name if len(name) <= LONGEST else self._cut(name, text)

    def _spelled(self, character: str) -> str:
        """Return one character as it stands in an escaped name."""
        if character == self.separator:
            return self.separator * 2
        if character.isascii() and (character.isalnum() or character in self.kept):
            return character
        return f"{self.separator}{ord(character):x}{self.separator}"

    def _cut(self, name: str, text: str) -> str:
        """Return the beginning of a name that is too long, and a digest of its whole text."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST]
        start = name.removeprefix(f"x{self.separator}")[: LONGEST - DIGEST - 4]
        return f"xx{self.separator}{start}{self.separator}{digest}"


_CONSTANT = _Escape(re.compile("[A-Za-z][A-Za-z0-9_]*"), "_", "")
_ARGUMENT = _Escape(re.compile("[A-Za-z0-9_.-]+"), ".", "_-")


def constant(text: str) -> str:
    """Return a name in capitals for `text`, at most 64 characters.

    Texts that differ in more than the case of ASCII letters have different names.
    """
    lowered = "".join(c.lower() if c.isascii() else c for c in text)
    return _CONSTANT.name(lowered, reserved=lowered in ("i", "o")).upper()


def argument_name(text: str) -> str:
    """Return a name for an argument of a tool, another for each text.

    A model's API refuses a whole request for one property that does not match
    `^[a-zA-Z0-9_.-]{1,64}$`. What does stays as it is, unless it begins like an escape.
    """
    return _ARGUMENT.name(text)
