"""Folds text into the words that are searched for, which are the same however they are written."""

from __future__ import annotations

WORD = "[0-9a-z\x80-\U0010ffff]"  # a character of a folded word; all others part words
APART = "[^0-9a-z\x80-\U0010ffff]"
REMEMBERED = 8_192  # characters
_MARKS = dict.fromkeys(range(0x300, 0x370))  # the accents that are left out
# Scripts that put no blanks between words: kana and Han.
_UNPARTED = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x3FFFF))


class _Characters(dict[int, str]):
    """What stands for a character: itself where it belongs to a word, else a blank."""

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
    """A text in small letters without accents, in which all that is no part of a word parts words.

    Letters, digits and the marks that belong to letters make words; "_", "-" and "/" part them.
    Each character of a script without blanks is a word of its own.
    """
    if text.isascii():
        return text.lower()
    from unicodedata import normalize

    folded = normalize("NFKD", normalize("NFKD", text).casefold()).translate(_MARKS)
    return normalize("NFC", folded).translate(_CHARACTERS)
