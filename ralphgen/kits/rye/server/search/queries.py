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

from ..values import INVALID_QUERY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Node: TypeAlias = "Leaf | Both | Either | Without"

FIELDS = ("name", "title", "description", "category", "tags", "body")
FIELD = rf"({'|'.join(FIELDS)}):"
LONGEST = 2_000  # characters of a query
MOST_TERMS = 200
MOST_WILDCARDS = 20  # `*` elsewhere than at the end of a term: whole texts are looked through
DEEPEST = 50  # groups within each other
AND, OR, NOT = "AND", "OR", "NOT"
UNCLOSED = '"(" is not closed: add ")", or remove it'
UNOPENED = '")" has no matching "(": remove it, or add "(" before it'
_TOKENS = r'\(|\)|"[^"]*"?|[^\s()"]+'
APART = r"[\x00-/:-`{-\x7f]"  # a character that separates words: ASCII without 0-9 and a-z
# All others are characters of words. As a range up to \U0010ffff, each would be compiled for 10 ms.
WORD = r"[^\x00-/:-`{-\x7f]"
REMEMBERED = 8_192  # characters
_MARKS = dict.fromkeys(range(0x300, 0x370))  # the accents that are left out
# Scripts that put no blanks between words: kana and Han.
_UNPARTED = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x3FFFF))


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
        raise _invalid(LONGEST, f"it has {len(text):,} characters: use at most {LONGEST:,}")
    parser = _Parser(text)
    if not parser.tokens:  # neither is there an operator or a group
        raise _invalid(
            0, "it has no letters or digits: use a word, or an empty query for all items"
        )
    return parser.whole()


def leaves_of(node: Node | None) -> list[Leaf]:
    """Return what a query looks for, in its order, without what must not be there."""
    if isinstance(node, Leaf):
        return [node]
    parts = node.parts if isinstance(node, (Both, Either)) else []
    return [leaf for part in parts for leaf in leaves_of(part)]


class _Parser:
    """Reads the tokens of one query from left to right: OR binds least, NOT most."""

    __slots__ = ("_at", "_depth", "_terms", "_wildcards", "tokens")

    def __init__(self, text: str) -> None:
        found = re.finditer(_TOKENS, text)
        self.tokens = [token for token in found if means_something(token[0])]
        self._at = self._depth = self._terms = self._wildcards = 0

    def whole(self) -> Node:
        """Return what the whole query means."""
        node = self._either("")
        if token := self._next():
            raise _invalid(token.start(), UNOPENED)
        return node

    def _next(self) -> re.Match[str] | None:
        return self.tokens[self._at] if self._at < len(self.tokens) else None

    def _goes_on_with(self, *texts: str) -> bool:
        token = self._next()
        return token is not None and token[0] in texts

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
        if token is None or token[0] in (AND, OR, ")"):
            raise self._nothing_here(token)
        self._at += 1
        if token[0] == "(":
            return self._group(token, field)
        named = re.match(FIELD, token[0])
        if named and named.end() == len(token[0]):
            return self._of_field(token, named[1])
        text = token[0][named.end() :] if named else token[0]
        return self._leaf(text, named[1] if named else field, token)

    def _group(self, opening: re.Match[str], field: str) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _invalid(opening.start(), f"groups are nested more than {DEEPEST} levels deep")
        if self._goes_on_with(")"):
            raise _invalid(opening.start(), 'the group is empty: add words, or put "()" in quotes')
        node = self._either(field)
        if not self._goes_on_with(")"):
            raise _invalid(opening.start(), UNCLOSED)
        self._at += 1
        self._depth -= 1
        return node

    def _of_field(self, token: re.Match[str], field: str) -> Node:
        """Return the phrase or the group that stands right behind the name of a field."""
        after = self._next()
        if after is None or after.start() != token.end() or after[0][0] not in '("':
            raise _invalid(
                token.start(),
                f'no word after "{token[0]}": write it without a space, such as title:word',
            )
        return self._primary(field)

    def _leaf(self, text: str, field: str, token: re.Match[str]) -> Leaf:
        if text[0] == '"':
            if is_open(text):
                raise _invalid(token.start(), "the quote is not closed: add a closing quote")
            leaf = Leaf(words_of(text), field, token.start(), beginning=False, plain=False)
        else:
            leaf = read_term(text, field, token.start())
        self._terms += 1
        self._wildcards += sum(word.count("*") for word in leaf.words)
        if not leaf.words:
            raise _invalid(token.start(), f'"{field}:" is not followed by a letter or digit')
        if self._terms > MOST_TERMS:
            raise _invalid(token.start(), f"it has more than {MOST_TERMS} terms: remove some")
        if self._wildcards > MOST_WILDCARDS:
            what = f'more than {MOST_WILDCARDS} "*" are not at the end of a term'
            raise _invalid(token.start(), f"{what}: remove some")
        return leaf

    def _nothing_here(self, token: re.Match[str] | None) -> CodedError:
        """Return the error where something to look for should stand, and this or nothing does."""
        before = self.tokens[max(self._at - 1, 0)]
        if before is not token and before[0] in (AND, OR, NOT):
            return _dangling(before, "after")
        if token is None:
            return _invalid(before.start(), UNCLOSED)
        if token[0] == ")":
            return _invalid(token.start(), UNOPENED)
        return _dangling(token, "before")


def _dangling(operator: re.Match[str], where: str) -> CodedError:
    return _invalid(
        operator.start(),
        f'"{operator[0]}" has no word {where} it: add one, or write the operator in lower case '
        "to search for it",
    )


def _invalid(position: int, what: str) -> CodedError:
    message = f"invalid query at character {position}: {what}"
    return CodedError(INVALID_QUERY, message, position=position)
