"""Which characters a reader of source text can trust, how others are escaped, how wide they are."""

import re
from re import Match

LINE_WIDTH = 100  # columns of a line of emitted Python

# The sets are written out, not asked of `unicodedata`: its answers change between Python versions,
# and the same project has to give the same bytes on all of them.
_NARROW = (
    " -~"
    "\u00a1-\u00ac\u00ae-\u00b3\u00b5-\u00b7\u00b9-\u00d6\u00d8-\u0130\u0132-\u017e"  # Latin
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce"  # Greek
    "\u0400-\u045f\u0490\u0491"  # Cyrillic
    "\u2014\u201c-\u201e\u2022\u2026\u20ac\u2116\u2190-\u2193\u2248\u2260\u2264\u2265\u2713\u2717"
)
_WIDE = (
    "\u26a1\u2705\u2728\u274c\u2753-\u2755\u2757\u2b50"
    "\u3001\u3002\u300c-\u3011\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fa5\uac00-\ud7a3"
    "\U0001f300-\U0001f320\U0001f337-\U0001f37c\U0001f3a0-\U0001f3ca\U0001f3e0-\U0001f3f0"
    "\U0001f400-\U0001f43e\U0001f442-\U0001f4fc\U0001f500-\U0001f53d\U0001f5fb-\U0001f64f"
    "\U0001f680-\U0001f6c5\U0001f90d-\U0001f93a\U0001f947-\U0001f9ff"
)
# Letters that look like others: trusted only in a word whose other letters tell the script.
_DOUBLES = (
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1"
    "\u03b3\u03b9\u03bd\u03bf\u03c1\u03c3\u03c5"
    "\u0405\u0406\u0408\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u042c\u0430\u0431\u0433\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458"
    "\u30ce\u4e36\u4e3f"
)
_UNTRUSTED = re.compile(f"[^{_NARROW}{_WIDE}]")
_WIDE_CHARACTER = re.compile(f"[{_WIDE}]")
_DOUBLE = re.compile(f"[{_DOUBLES}]")
_WORD = re.compile(r"[^\W_]+")
_TELLING = re.compile(f"[^\x00-\x7f{_DOUBLES}]")
_ASCII = re.compile("[\x00-\x7f]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def width(text: str) -> int:
    """Return the columns that trusted text takes: East Asian characters and emoji take two."""
    return len(text) + len(_WIDE_CHARACTER.findall(text))


def escaped(text: str) -> str:
    r"""Return `text` with each untrusted character as `\xNN`, `\uNNNN` or the like.

    Untrusted are control characters, line separators, lone surrogates, what is invisible, combines
    or runs from right to left, and what looks like another character. Backslashes stay as they are:
    where the result is read as Python, they have to be doubled before.
    """
    if text.isascii() and text.isprintable():
        return text
    return _WORD.sub(_escaped_doubles, _UNTRUSTED.sub(_short_escape, text))


def visible(text: str) -> str:
    r"""Return `text` as `escaped` does, with no other escapes than `\uNNNN` and `\UNNNNNNNN`.

    They alone may stand in a docstring that is not raw (ruff D301).
    """
    return _WORD.sub(_escaped_doubles, _UNTRUSTED.sub(long_escape, text))


def long_escape(match: Match[str]) -> str:
    r"""Return the one matched character as `\uNNNN` or `\UNNNNNNNN`."""
    code = f"{ord(match[0]):04x}"
    return f"\\u{code}" if len(code) == len("ffff") else f"\\U{code:0>8}"


def _short_escape(match: Match[str]) -> str:
    """Return the shortest escape of the one matched character."""
    code = f"{ord(match[0]):02x}"
    if len(code) > len("ff"):
        return long_escape(match)
    return _SHORT.get(match[0], f"\\x{code}")


def _escaped_doubles(match: Match[str]) -> str:
    """Return a word with its doubles escaped, unless its other letters tell the script.

    The word is looked at as it is spelled, where an escape's letters are ASCII too: that is how
    ruff reads it (RUF001).
    """
    if _TELLING.search(match[0]) and not _ASCII.search(match[0]):
        return match[0]
    return _DOUBLE.sub(long_escape, match[0])
