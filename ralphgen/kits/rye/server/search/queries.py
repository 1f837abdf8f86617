"""Reads what is searched for: words, "phrases", wild*cards and fields, put together by operators.

Words beside each other must all be there; AND, OR and NOT are operators in capitals only, so that
"search or replace" is three words. A word matches those that begin with it; one of several parts,
as `create_tool`, matches them behind each other. A phrase in quotes matches whole words. A term
with `*`, which stands for any number of characters of a word, matches just what it says. What has
neither a letter nor a digit is left out. Raises `CodedError` for all that has no meaning.
"""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..failures import INVALID_QUERY
from .words import WORD, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Node: TypeAlias = "Leaf | Both | Either | Without"

FIELDS = ("name", "title", "description", "category", "tags", "body")
FIELD = rf"({'|'.join(FIELDS)}):"
LONGEST = 2_000  # characters of a query
MOST_TERMS = 200
MOST_WILDCARDS = 20  # of them with a `*` elsewhere than at the end: these look at whole texts
DEEPEST = 50  # groups within each other
AND, OR, NOT = "AND", "OR", "NOT"
UNCLOSED = '"(" is never closed: add ")", or remove it'
UNOPENED = '")" closes no group: remove it, or add "(" before'
_TOKENS = r'\(|\)|"[^"]*"?|[^\s()"]+'


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
        """Return whether a `*` stands elsewhere than at its end."""
        return any("*" in word for word in self.words)

    @property
    def held(self) -> str:
        """Return what every text holds that has its words, which is found faster than these."""
        return max("*".join(self.words).split("*"), key=len)


def means_something(token: str) -> bool:
    """Return whether a piece of a query is an operator, a bracket, an open quote, or has a word."""
    if token[0] == '"':
        return is_open(token) or bool(words_of(token))
    return token in ("(", ")") or "*" in token or bool(words_of(token))


def is_open(phrase: str) -> bool:
    """Return whether the second quote of a phrase is missing."""
    return len(phrase) == 1 or phrase[-1] != '"'


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, folded."""
    return tuple(re.findall(f"{WORD}+", fold(text)))


def read_term(text: str, field: str, position: int) -> Leaf:
    """Return the leaf of a term that stands in no quotes."""
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


class Both:
    """A node that matches what each of its parts matches."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Node]) -> None:
        self.parts = parts


class Either:
    """A node that matches what any of its parts matches."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Node]) -> None:
        self.parts = parts


class Without:
    """A node that matches what its part does not."""

    __slots__ = ("part",)

    def __init__(self, part: Node) -> None:
        self.part = part


def parse_query(text: str) -> Node | None:
    """Return what a query means; None for a blank one, which everything matches.

    Raises `CodedError` with the `position` of what is wrong, counted in characters from 0.
    """
    if not text.strip():
        return None
    if len(text) > LONGEST:
        raise _invalid(LONGEST, f"it has {len(text):,} characters, and may have {LONGEST:,}")
    parser = _Parser(text)
    if parser.is_empty():
        raise _invalid(0, "it has no letter and no digit: give a word, or nothing for all items")
    return parser.whole()


def leaves_of(node: Node | None) -> list[Leaf]:
    """Return what a query looks for, in its order, without what must not be there."""
    if isinstance(node, Leaf):
        return [node]
    parts = node.parts if isinstance(node, (Both, Either)) else []
    return [leaf for part in parts for leaf in leaves_of(part)]


class _Token:
    """A piece of a query, and where it begins."""

    __slots__ = ("position", "text")

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    @property
    def end(self) -> int:
        return self.position + len(self.text)


class _Parser:
    """Reads the tokens of one query from left to right: OR binds least, NOT most."""

    __slots__ = ("_at", "_depth", "_terms", "_tokens", "_wildcards")

    def __init__(self, text: str) -> None:
        found = (_Token(match[0], match.start()) for match in re.finditer(_TOKENS, text))
        self._tokens = [token for token in found if means_something(token.text)]
        self._at = self._depth = self._terms = self._wildcards = 0

    def is_empty(self) -> bool:
        """Return whether there is nothing to look for, and no operator and no group either."""
        return not self._tokens

    def whole(self) -> Node:
        """Return what the whole query means."""
        node = self._either("")
        if token := self._next():
            raise _invalid(token.position, UNOPENED)
        return node

    def _next(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _goes_on_with(self, *texts: str) -> bool:
        token = self._next()
        return token is not None and token.text in texts

    def _either(self, field: str) -> Node:
        parts = [self._both(field)]
        while self._goes_on_with(OR):
            self._at += 1
            parts.append(self._both(field))
        return parts[0] if len(parts) == 1 else Either(parts)

    def _both(self, field: str) -> Node:
        parts = [self._maybe_without(field)]
        while self._next() and not self._goes_on_with(OR, ")"):
            self._at += self._goes_on_with(AND)
            parts.append(self._maybe_without(field))
        return parts[0] if len(parts) == 1 else Both(parts)

    def _maybe_without(self, field: str) -> Node:
        begun = self._at
        while self._goes_on_with(NOT):
            self._at += 1
        negations = self._at - begun
        node = self._primary(field)
        return Without(node) if negations % 2 else node

    def _primary(self, field: str) -> Node:
        token = self._next()
        if token is None or token.text in (AND, OR, ")"):
            raise self._nothing_here(token)
        self._at += 1
        if token.text == "(":
            return self._group(token, field)
        named = re.match(FIELD, token.text)
        if named and named.end() == len(token.text):
            return self._of_field(token, named[1])
        text = token.text[named.end() :] if named else token.text
        return self._leaf(text, named[1] if named else field, token)

    def _group(self, opening: _Token, field: str) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _invalid(opening.position, f"more than {DEEPEST} groups lie within each other")
        if self._goes_on_with(")"):
            raise _invalid(
                opening.position, 'the group is empty: put "()" in quotes, or words between'
            )
        node = self._either(field)
        if not self._goes_on_with(")"):
            raise _invalid(opening.position, UNCLOSED)
        self._at += 1
        self._depth -= 1
        return node

    def _of_field(self, token: _Token, field: str) -> Node:
        """Return the phrase or the group that stands right behind the name of a field."""
        after = self._next()
        if after is None or after.position != token.end or after.text[0] not in '("':
            raise _invalid(
                token.position,
                f'nothing follows "{token.text}": write the word right behind it, without a blank',
            )
        return self._primary(field)

    def _leaf(self, text: str, field: str, token: _Token) -> Leaf:
        if text[0] == '"':
            if is_open(text):
                raise _invalid(token.position, "the quote is never closed: add another one")
            leaf = Leaf(words_of(text), field, token.position, beginning=False, plain=False)
        else:
            leaf = read_term(text, field, token.position)
        self._terms += 1
        self._wildcards += leaf.wild
        if not leaf.words:
            raise _invalid(token.position, f'"{field}:" is followed by no letter and no digit')
        if self._terms > MOST_TERMS:
            raise _invalid(token.position, f"it has more than {MOST_TERMS} terms: leave some out")
        if self._wildcards > MOST_WILDCARDS:
            what = f'more than {MOST_WILDCARDS} terms have "*" elsewhere than at their end'
            raise _invalid(token.position, f"{what}: leave some out")
        return leaf

    def _nothing_here(self, token: _Token | None) -> CodedError:
        """Return the error where something to look for should stand, and this or nothing does."""
        before = self._tokens[max(self._at - 1, 0)]
        if before is not token and before.text in (AND, OR, NOT):
            return _dangling(before, "after")
        if token is None:
            return _invalid(before.position, UNCLOSED)
        if token.text == ")":
            return _invalid(token.position, UNOPENED)
        return _dangling(token, "before")


def _dangling(operator: _Token, where: str) -> CodedError:
    return _invalid(
        operator.position,
        f'"{operator.text}" has nothing {where} it: write a word there, or the operator in small '
        "letters to look for it",
    )


def _invalid(position: int, what: str) -> CodedError:
    message = f"the query cannot be understood at character {position}: {what}"
    return CodedError(INVALID_QUERY, message, position=position)
