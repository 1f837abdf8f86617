"""Turns any text into a legal name, so that two texts never give the same one."""

import keyword
import re
from dataclasses import dataclass
from hashlib import sha256

LONGEST = 64  # characters of a name
DIGEST = 24  # hex digits that tell names apart that are cut

# Written out: `dir(builtins)` depends on the Python version and on how it was started.
_BUILTIN = re.compile(
    r"""
    abs|aiter|all|anext|any|ascii|bin|bool|breakpoint|bytearray|bytes|callable|chr|classmethod|
    compile|complex|copyright|credits|delattr|dict|dir|divmod|enumerate|eval|exec|exit|filter|float|
    format|frozenset|getattr|globals|hasattr|hash|help|hex|id|input|int|isinstance|issubclass|iter|
    len|license|list|locals|map|max|memoryview|min|next|object|oct|open|ord|pow|print|property|quit|
    range|repr|reversed|round|set|setattr|slice|sorted|staticmethod|str|sum|super|tuple|type|vars|
    zip|Ellipsis|NotImplemented|
    [A-Z][A-Za-z]*(Error|Warning|Exception|ExceptionGroup|Exit|Interrupt|Iteration)
    """,
    re.VERBOSE,
)
_SOFT_KEYWORDS = frozenset(("_", "case", "lazy", "match", "type"))
_AMBIGUOUS = frozenset("lIO")  # read as digits (ruff E741)
_RESERVED = _SOFT_KEYWORDS | _AMBIGUOUS | frozenset(keyword.kwlist)


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


_IDENTIFIER = _Escape(re.compile("[A-Za-z][A-Za-z0-9_]*"), "_", "")
_ARGUMENT = _Escape(re.compile("[A-Za-z0-9_.-]+"), ".", "_-")


def identifier(text: str) -> str:
    """Return a Python identifier for `text`, at most 64 characters, another for each text.

    Legal ASCII names stay as they are, unless they are keywords, builtins, read as digits or begin
    with an underscore: `status` is `status`, `class` is `x_class`, `in work` is `x_in_20_work`.
    """
    return _IDENTIFIER.name(text, reserved=text in _RESERVED or bool(_BUILTIN.fullmatch(text)))


def constant(text: str) -> str:
    """Return a name in capitals for `text`, at most 64 characters.

    Texts that differ in more than the case of ASCII letters have different names.
    """
    lowered = "".join(c.lower() if c.isascii() else c for c in text)
    return _IDENTIFIER.name(lowered, reserved=lowered in ("i", "o")).upper()


def argument_name(text: str) -> str:
    """Return a name for an argument of a tool, another for each text.

    A model's API refuses a whole request for one property that does not match
    `^[a-zA-Z0-9_.-]{1,64}$`. What does stays as it is, unless it begins like an escape.
    """
    return _ARGUMENT.name(text)
