"""The plain words of a text, and how far words are apart."""

import re
from unicodedata import normalize


def words_of(text: str) -> list[str]:
    """The plain words of a text: small letters and digits without accents."""
    return re.findall("[a-z0-9]+", re.sub("[\u0300-\u036f]", "", normalize("NFD", text)).lower())


def distance(one: str, other: str) -> int:
    """How many letters are added, removed, replaced or swapped with the next, as it is defined."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return distance(one[1:], other[1:])
    nearer = [(one[1:], other), (one, other[1:]), (one[1:], other[1:])]
    if one[:2] == other[1::-1] and one[1:]:
        nearer.append((one[2:], other[2:]))
    return 1 + min(distance(*pair) for pair in nearer)
