"""Folds text into words, the same however they are written, and finds those near a mistyped one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

WORD = "[0-9a-z\x80-\U0010ffff]"  # a character of a word; all others separate words
APART = "[^0-9a-z\x80-\U0010ffff]"
REMEMBERED = 8_192  # characters
_MARKS = dict.fromkeys(range(0x300, 0x370))  # the accents that are left out
# Scripts that put no blanks between words: kana and Han.
_UNPARTED = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x3FFFF))
MOST_WORDS = 50  # that one word may have meant
LONGEST_MISTYPED = 64  # characters of a word that may be mistyped


class _Characters(dict[int, str]):
    """Maps a character to itself where it belongs to a word, else to a blank."""

    def __missing__(self, code: int) -> str:
        from unicodedata import category

        character = chr(code)
        kept = character.isalnum() or category(character)[0] in "LMN"
        if kept and any(first <= code <= last for first, last in _UNPARTED):
            character = f" {character} "
        found = character if kept else " "
        if len(self) < REMEMBERED:
            self[code] = found
        return found


_CHARACTERS = _Characters()


def fold(text: str) -> str:
    """Return a text in small letters without accents, with blanks for all that is in no word.

    Letters, digits and the marks that belong to letters make words; "_", "-" and "/" part them.
    Each character of a script without blanks is a word of its own.
    """
    if text.isascii():
        return text.lower()
    from unicodedata import normalize

    folded = normalize("NFKD", normalize("NFKD", text).casefold()).translate(_MARKS)
    return normalize("NFC", folded).translate(_CHARACTERS)


def allowed_distance(word: str, most: int) -> int:
    """Return how many letters of a word may be wrong: never so many that half of it would be left.

    None of one or two letters, one of three or four, two of five or six, else up to three.
    """
    return min(most, (len(word) - 1) // 2) if len(word) <= LONGEST_MISTYPED else 0


def pattern_near(word: str, distance: int) -> str:
    """Return a regular expression that each word within a distance matches, though not they alone.

    Cut into one piece more than letters are wrong, a word has a piece in which none is: it stands
    there as it is, and what goes before and after has nearly the same length.
    """
    length, count = len(word), distance + 1
    patterns = []
    for number in range(count):
        first, end = length * number // count, length * (number + 1) // count
        before, after = _letters(first, distance), _letters(length - end, distance)
        patterns.append(f"{before}{word[first:end]}{after}")
    return "|".join(patterns)


def _letters(number: int, distance: int) -> str:
    return f".{{{max(number - distance, 0)},{number + distance}}}"


def nearest_words(word: str, candidates: Iterable[str], most: int) -> dict[int, list[str]]:
    """Return the candidates within a distance, by how far they are.

    The nearest ones, then the first.
    """
    found = ((distance_between(word, candidate, most), candidate) for candidate in candidates)
    near = sorted(pair for pair in found if 0 < pair[0] <= most)
    by_distance: dict[int, list[str]] = {}
    for distance, candidate in near[:MOST_WORDS]:
        by_distance.setdefault(distance, []).append(candidate)
    return by_distance


def distance_between(one: str, other: str, most: int) -> int:
    """Return how many letters must be added, removed or replaced.

    Any number over `most` for too many.
    """
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        before, row = row, [number]
        for at, beside in enumerate(other):
            row.append(min(before[at] + (letter != beside), before[at + 1] + 1, row[at] + 1))
        if min(row) > most:
            return most + 1
    return row[-1]
