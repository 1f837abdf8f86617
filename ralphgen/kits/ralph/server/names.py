"""Checks the name of a new feature or discipline, finds similar ones, makes its acronym."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.nearest import LONGEST_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from difflib import SequenceMatcher

MOST_SIMILAR = 5
SHORTEST_PREFIX = 3  # "ui" begins too many words to mean one of them
NEAR = 0.8  # of difflib's ratio: one letter in five may differ
SHOWN = 60  # characters of a name in a sentence

LENGTH = 4
SHARES = {1: (4,), 2: (2, 2), 3: (2, 1, 1)}  # letters of each word; of more words, one of four
UNKNOWN = "UNKN"  # for names without a single Latin letter or digit
COUNTED = 1_000  # collisions are numbered 001 to 999 first, in a form that people can read
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FOREIGN = re.compile(r"[^a-z0-9]+")
_NOT_IN_ACRONYM = re.compile("[^A-Z0-9]")
_VOWELS = re.compile("[AEIOU]")


def name_problem(name: str) -> str | None:
    """Return one sentence on why nothing new may have this name, `None` where it may.

    Names are looked up exactly as they are stored, so only new ones are held to a form: lower-case
    letters and digits, with single "-" or "_" between them.
    """
    if _NAME.fullmatch(name):
        too_long = f"a name of {len(name)} characters is too long: {LONGEST_NAME} is the most"
        return too_long if len(name) > LONGEST_NAME else None
    form = _normal_form(name) if len(name) <= SHOWN else ""
    shown = json.dumps(name[:SHOWN], ensure_ascii=not name.isprintable())
    hint = f': use "{form}"' if form else ""
    return (
        f"{shown} is no name of lower-case letters and digits, "
        f'with single "-" or "_" between them{hint}'
    )


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five of the `known` names that may mean the same, the likeliest first.

    One is similar if it begins with the other ("auth", "authentication") or is spelled much
    alike. Case, hyphens, underscores and spaces do not count; the order of `known` neither.
    """
    letters = _letters(name)
    if not letters or len(name) > LONGEST_NAME:
        return []
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=letters, autojunk=False)
    found: list[tuple[float, str]] = []
    for other in set(known) - {name}:
        likeness = _likeness(matcher, letters, _letters(other))
        if likeness >= NEAR:
            found.append((-likeness, other))
    return [other for _, other in sorted(found)[:MOST_SIMILAR]]


def acronym(name: str, display_name: str, taken: Collection[str]) -> str:
    """Return four characters of A-Z and 0-9 for a new row, none of those in `taken`.

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


def _normal_form(name: str) -> str:
    """Return a name in the form of a new one; empty where nothing of it is left."""
    from unicodedata import normalize

    plain = normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    spaced = _CAMEL.sub("-", plain).lower()
    return _FOREIGN.sub(lambda run: "_" if set(run[0]) == {"_"} else "-", spaced).strip("-_")


def _letters(name: str) -> str:
    """Return a name without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _likeness(matcher: SequenceMatcher[str], letters: str, other: str) -> float:
    """Return the likeness: 2 for the same letters, 1 to 2 where one name begins the other."""
    shorter, longer = sorted((letters, other), key=len)
    if len(shorter) >= SHORTEST_PREFIX and longer.startswith(shorter):
        return 1 + len(shorter) / len(longer)
    if len(longer) > LONGEST_NAME:
        return 0
    matcher.set_seq1(other)
    near = matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR
    return matcher.ratio() if near else 0


def _words(text: str) -> list[str]:
    """Return the words in A-Z and 0-9: accents are dropped, "-" and "_" separate words."""
    if not text.isascii():
        from unicodedata import normalize

        text = normalize("NFKD", text)
    spaced = text.upper().replace("-", " ").replace("_", " ")
    words = (_NOT_IN_ACRONYM.sub("", word) for word in spaced.split())
    return [word for word in words if word]


def _initials(words: list[str]) -> str:
    """Return the first letters that stand for the words, filled up with the last of them."""
    if not words:
        return UNKNOWN
    consonants = _VOWELS.sub("", words[0])
    if len(words) == 1 and len(consonants) >= LENGTH:
        words = [consonants]
    shares = SHARES.get(len(words), (1, 1, 1, 1))
    letters = "".join(word[:share] for word, share in zip(words, shares, strict=False))
    return letters.ljust(LENGTH, letters[-1])


def _candidates(wanted: str) -> Iterator[str]:
    """Yield the wanted one, then its first letter with a number, then every one there is."""
    yield wanted
    for number in range(1, COUNTED):
        yield f"{wanted[0]}{number:03}"
    from itertools import product

    first = DIGITS.index(wanted[0])
    for letters in product(DIGITS[first:] + DIGITS[:first], DIGITS, DIGITS, DIGITS):
        yield "".join(letters)
