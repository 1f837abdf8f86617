"""Reads the terms of a query: the words that are looked for, behind each other."""

from __future__ import annotations

import re

from .words import WORD, fold

FIELDS = ("name", "title", "description", "category", "tags", "body")
FIELD = rf"({'|'.join(FIELDS)}):"


class Leaf:
    """Words behind each other, in one field or in any.

    `beginning` says that the last word may go on; `plain`, that nothing but words was asked for. A
    `*` in a word stands for any number of its characters. `position` is where it begins.
    """

    __slots__ = ("beginning", "field", "plain", "position", "words")

    def __init__(
        self, words: tuple[str, ...], field: str, position: int, *, beginning: bool, plain: bool
    ) -> None:
        self.words = words
        self.field = field
        self.position = position
        self.beginning = beginning
        self.plain = plain

    @property
    def wild(self) -> bool:
        """Whether a `*` stands elsewhere than at its end."""
        return any("*" in word for word in self.words)

    @property
    def held(self) -> str:
        """What every text holds that has its words, which is found faster than these."""
        return max("*".join(self.words).split("*"), key=len)


def means_something(token: str) -> bool:
    """Whether a piece of a query is an operator, a parenthesis, an open quote, or has a word."""
    if token[0] == '"':
        return is_open(token) or bool(words_of(token))
    return token in ("(", ")") or "*" in token or bool(words_of(token))


def is_open(phrase: str) -> bool:
    """Whether the second quote of a phrase is missing."""
    return len(phrase) == 1 or phrase[-1] != '"'


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, folded."""
    return tuple(re.findall(f"{WORD}+", fold(text)))


def read_term(text: str, field: str, position: int) -> Leaf:
    """The leaf of a term that stands in no quotes."""
    if "*" not in text:
        return Leaf(words_of(text), field, position, beginning=True, plain=True)
    folded = "*".join(map(fold, text.split("*")))
    words = [re.sub(r"\*+", "*", word) for word in re.findall(rf"(?:{WORD}|\*)+", folded)]
    # What goes before the first word or after the last may be nothing at all.
    while len(words) > 1 and words[-1] == "*":
        words.pop()
    while len(words) > 1 and words[0] == "*":
        del words[0]
    last = words[-1]
    beginning = len(last) > 1 and last.endswith("*")
    if beginning:
        words[-1] = last[:-1]
    return Leaf(tuple(words), field, position, beginning=beginning, plain=False)
