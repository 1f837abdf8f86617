"""Makes the four characters by which a feature or a discipline is known in short."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LENGTH = 4
SHARES = {1: (4,), 2: (2, 2), 3: (2, 1, 1)}  # letters of each word; of more words, one of four
UNKNOWN = "UNKN"  # for names without a single Latin letter or digit
COUNTED = 1_000  # collisions are numbered 001 to 999 first, in a form that people can read
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_FOREIGN = re.compile("[^A-Z0-9]")
_VOWELS = re.compile("[AEIOU]")


def acronym(name: str, display_name: str, taken: Collection[str]) -> str:
    """Four characters of A-Z and 0-9 for a new row, none of those in `taken`.

    They come from the display name if it has several words, else from the name. The same
    arguments give the same answer. Raises `ToolError` where all 36^4 are taken.
    """
    several = " " in display_name.strip()
    words = (_words(display_name) if several else []) or _words(name) or _words(display_name)
    wanted = _initials(words)
    used = frozenset(taken)
    for candidate in _candidates(wanted):
        if candidate not in used:
            return candidate
    raise ToolError("no acronym is left: all of four letters or digits are taken")


def _words(text: str) -> list[str]:
    """The words in A-Z and 0-9: accents go, "-" and "_" separate, all other marks are dropped."""
    if not text.isascii():
        from unicodedata import normalize

        text = normalize("NFKD", text)
    spaced = text.upper().replace("-", " ").replace("_", " ")
    words = (_FOREIGN.sub("", word) for word in spaced.split())
    return [word for word in words if word]


def _initials(words: list[str]) -> str:
    """The first letters that stand for the words, filled up with the last of them."""
    if not words:
        return UNKNOWN
    consonants = _VOWELS.sub("", words[0])
    if len(words) == 1 and len(consonants) >= LENGTH:
        words = [consonants]
    shares = SHARES.get(len(words), (1, 1, 1, 1))
    letters = "".join(word[:share] for word, share in zip(words, shares, strict=False))
    return letters.ljust(LENGTH, letters[-1])


def _candidates(wanted: str) -> Iterator[str]:
    """The wanted one, then its first letter with a number, then every one there is."""
    yield wanted
    for number in range(1, COUNTED):
        yield f"{wanted[0]}{number:03}"
    from itertools import product

    first = DIGITS.index(wanted[0])
    for letters in product(DIGITS[first:] + DIGITS[:first], DIGITS, DIGITS, DIGITS):
        yield "".join(letters)
