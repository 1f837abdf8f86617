"""Parses search queries and matches them against the indexed texts."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from .values import INVALID_QUERY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from .search_index import ItemTable

    Node: TypeAlias = "Leaf | Both | Either | Without"

FIELDS = ("name", "title", "description", "category", "tags", "body")
FIELD = rf"({'|'.join(FIELDS)}):"
LONGEST = 2_000  # characters of a query
MOST_TERMS = 200
MOST_WILDCARDS = 20  # `*` not at the end of a term: each one searches whole texts
LONGEST_WORD = 1_000  # characters; the index cuts longer words
DEEPEST = 50  # nested groups
AND, OR, NOT = "AND", "OR", "NOT"
UNCLOSED = '"(" is not closed: add ")", or remove it'
UNOPENED = '")" has no matching "(": remove it, or add "(" before it'
_TOKENS = r'\(|\)|"[^"]*"?|[^\s()"]+'
APART = r"[\x00-/:-`{-\x7f]"  # a character that separates words: ASCII without 0-9 and a-z
# Other characters form words. A range up to \U0010ffff would take 10 ms to compile.
WORD = r"[^\x00-/:-`{-\x7f]"
REMEMBERED = 8_192  # characters
_MARKS = dict.fromkeys(range(0x300, 0x370))  # accents, which are ignored
# Scripts without blanks between words: kana and Han.
_UNPARTED = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x3FFFF))


class _Characters(dict[int, str]):
    """Maps a word character to itself, and any other character to a blank."""

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
    """Return a text in lower case without accents, with blanks between the words.

    Letters, digits and combining marks form words; "_", "-" and "/" separate them. Each character
    of a script without blanks is a separate word.
    """
    if text.isascii():
        return text.lower()
    from unicodedata import normalize

    folded = normalize("NFKD", normalize("NFKD", text).casefold()).translate(_MARKS)
    return normalize("NFC", folded).translate(_CHARACTERS)


class Leaf:
    """Consecutive words to search for, in one field or in any field.

    If `beginning` is set, the last word is a prefix. `plain` means a bare word, neither a phrase
    nor a pattern. A `*` in a word matches any number of word characters. `position` is the offset
    of the leaf in the query.
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
        """Return whether a word contains a `*`."""
        return any("*" in word for word in self.words)

    @property
    def literal_part(self) -> str:
        """Return the longest literal part, which is faster to search for than the pattern."""
        return max("*".join(self.words).split("*"), key=len)


def means_something(token: str) -> bool:
    """Return whether a token is an operator, a bracket, an open quote, or contains a word."""
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
    """Return the leaf of an unquoted term."""
    if "*" not in text:
        return Leaf(words_of(text), field, position, beginning=True, plain=True)
    folded = "*".join(map(fold, text.split("*")))
    words = [re.sub(r"\*+", "*", word) for word in re.findall(rf"(?:{WORD}|\*)+", folded)]
    # A leading or trailing "*" may match nothing.
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
    """A node that matches if all its parts match."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Node]) -> None:
        self.parts = parts


class Either:
    """A node that matches if any of its parts matches."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Node]) -> None:
        self.parts = parts


class Without:
    """A node that matches if its part does not."""

    __slots__ = ("part",)

    def __init__(self, part: Node) -> None:
        self.part = part


def parse_query(text: str) -> Node | None:
    """Return the root node of a query, or None for a blank query, which matches everything.

    Raises `CodedError` with the `position` of the mistake, a character offset from 0.
    """
    if not text.strip():
        return None
    if len(text) > LONGEST:
        raise _invalid(LONGEST, f"it has {len(text):,} characters: use at most {LONGEST:,}")
    parser = _Parser(text)
    if not parser.tokens:  # nor an operator or a group
        raise _invalid(
            0, "it has no letters or digits: use a word, or an empty query for all items"
        )
    return parser.whole()


def leaves_of(node: Node | None) -> list[Leaf]:
    """Return the leaves of a query in order, without the negated ones."""
    if isinstance(node, Leaf):
        return [node]
    parts = node.parts if isinstance(node, (Both, Either)) else []
    return [leaf for part in parts for leaf in leaves_of(part)]


class _Parser:
    """Recursive-descent parser of one query: OR binds loosest, NOT tightest."""

    __slots__ = ("_at", "_depth", "_terms", "_wildcards", "tokens")

    def __init__(self, text: str) -> None:
        found = re.finditer(_TOKENS, text)
        self.tokens = [token for token in found if means_something(token[0])]
        self._at = self._depth = self._terms = self._wildcards = 0

    def whole(self) -> Node:
        """Return the root node of the query."""
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
        """Return the phrase or group directly after a field name."""
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
        """Return the error for a token, or the end of the query, in place of an operand."""
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


WEIGHTS = (3.0, 3.0, 2.0, 1.5, 1.5, 1.0)  # weights of `FIELDS`
SATURATION = 1.2  # BM25 term-frequency saturation (k1)
LEAST_WORTH = 1e-6  # lower bound that FTS5 sets for the IDF of a common word
INEXACT = 0.5  # factor for a prefix match
MISTYPED = 0.02  # score of a misspelled match
MOST_ALIKE = 200  # indexed words that match a "*" and are looked up one by one
MOST_WORDS = 50  # corrections of one word
LONGEST_MISTYPED = 64  # characters of a word with corrections
MOST_MISTYPED = 20  # terms of a query with corrections


class Matching:
    """Matches queries against an item table, with up to `distance` wrong letters a word."""

    __slots__ = ("_distance", "_table")

    def __init__(self, table: ItemTable, distance: int) -> None:
        self._table = table
        self._distance = distance

    def scores(self, query: Node | None) -> dict[int, float]:
        """Return the matching rows and their scores; raises `CodedError`."""
        if query is None:
            return dict.fromkeys(self._table.items, 0.0)
        if self._distance:
            # Each such word is compared with every indexed word.
            mistyped = [leaf for leaf in leaves_of(query) if may_be_mistyped(leaf)]
            if len(mistyped) > MOST_MISTYPED:
                position = mistyped[MOST_MISTYPED].position
                raise CodedError(
                    INVALID_QUERY,
                    f"invalid query at character {position}: more than {MOST_MISTYPED} words with "
                    '"fuzzy": remove some',
                    position=position,
                )
        return self._of(query)

    def _of(self, node: Node) -> dict[int, float]:
        if isinstance(node, Leaf):
            return self._leaf(node)
        if isinstance(node, Without):
            return dict.fromkeys(self._table.items.keys() - self._of(node.part), 0.0)
        found = self._of(node.parts[0])
        for part in node.parts[1:]:
            other = self._of(part)
            if isinstance(node, Both):
                found = {row: score + other[row] for row, score in found.items() if row in other}
            else:
                found |= {row: score + found.get(row, 0.0) for row, score in other.items()}
        return found

    def _leaf(self, leaf: Leaf) -> dict[int, float]:
        """Return the scores of the rows that match a leaf; rare words score higher."""
        from math import log

        counts = (_counted_by_text if leaf.wild else _counted)(self._table, leaf)
        if self._distance and may_be_mistyped(leaf):
            _add_mistyped(self._table, leaf, self._distance, counts)
        worth = log(1 + (len(self._table.items) - len(counts) + 0.5) / (len(counts) + 0.5))
        return {row: count * worth for row, count in counts.items()}


def _counted(table: ItemTable, leaf: Leaf) -> dict[int, float]:
    """Return the rows that contain a leaf, each with its term weight."""
    from math import log

    ranks = table.ranks(_expression(leaf, leaf.words, beginning=leaf.beginning), WEIGHTS)
    # FTS5 multiplies by an IDF that is almost zero for common words: divide it out again.
    common = log((len(table.items) - len(ranks) + 0.5) / (len(ranks) + 0.5))
    worth = common if common > 0 else LEAST_WORTH
    counts = {row: -rank / worth for row, rank in ranks}
    if leaf.beginning:
        exact = set(table.rows(_expression(leaf, leaf.words, beginning=False)))
        for row in counts.keys() - exact:
            counts[row] *= INEXACT
    return counts


def _counted_by_text(table: ItemTable, leaf: Leaf) -> dict[int, float]:
    """Return the same for a leaf with a `*` in a word, by searching candidate texts."""
    wanted = [_alike(table, leaf, word) for word in _whole_words(leaf)]
    if None in wanted:
        return {}
    pattern = re.compile(pattern_of(leaf))
    weights = [WEIGHTS[FIELDS.index(leaf.field)]] if leaf.field else WEIGHTS
    held = leaf.literal_part
    counts = {}
    for row, *texts in table.texts(" AND ".join(filter(None, wanted)), leaf.field):
        pairs = zip(texts, weights, strict=True)
        amount = sum(weight for text, weight in pairs if held in text and pattern.search(text))
        if amount:
            counts[row] = INEXACT * amount * (SATURATION + 1) / (amount + SATURATION)
    return counts


def _alike(table: ItemTable, leaf: Leaf, word: str) -> str | None:
    """Return an FTS5 expression that matches every row with a given word pattern.

    An empty expression means any row, None no row.
    """
    words = table.words(f"{_word_pattern(word)}|.{{{LONGEST_WORD}}}")  # a cut word may match too
    if len(words) > MOST_ALIKE:
        head = word.partition("*")[0]
        return _expression(leaf, (head,), beginning=True) if head else ""
    each = [_expression(leaf, (one,), beginning=len(one) == LONGEST_WORD) for one in words]
    return f"({' OR '.join(each)})" if each else None


def may_be_mistyped(leaf: Leaf) -> bool:
    """Return whether a fuzzy search looks up similar words for a leaf."""
    return leaf.plain and len(leaf.words) == 1


def _add_mistyped(table: ItemTable, leaf: Leaf, most: int, counts: dict[int, float]) -> None:
    """Add the rows that contain a word similar to the word of a leaf."""
    (word,) = leaf.words
    most = allowed_distance(word, most)
    if not most:
        return
    candidates = table.words(pattern_near(word, most))
    for distance, words in nearest_words(word, candidates, most).items():
        expression = " OR ".join(_expression(leaf, (near,), beginning=False) for near in words)
        for row in table.rows(expression):
            counts.setdefault(row, MISTYPED / distance)


def _expression(leaf: Leaf, words: Sequence[str], *, beginning: bool) -> str:
    """Return folded words as an FTS5 expression."""
    phrase = f'"{" ".join(words)}"{" *" if beginning else ""}'
    return f"{leaf.field} : {phrase}" if leaf.field else phrase


def pattern_of(leaf: Leaf) -> str:
    """Return a regular expression for the words of a leaf; it runs in linear time."""
    patterns = map(_word_pattern, _whole_words(leaf))
    return f"(?<!{WORD}){f'{APART}+'.join(patterns)}(?!{WORD})"


def _whole_words(leaf: Leaf) -> list[str]:
    """Return the words of a leaf as whole-word patterns."""
    *words, last = leaf.words
    return [*words, f"{last}*" if leaf.beginning else last]


def _word_pattern(word: str) -> str:
    """Return a word as a regular expression."""
    if word == "*":
        return f"{WORD}+"
    first, *others = word.split("*")
    if not others:
        return word
    *inner, last = others
    # For every `*` but the last, the first match of the next part suffices.
    return first + "".join(f"(?>{WORD}*?{part})" for part in inner) + f"{WORD}*{last}"


def allowed_distance(word: str, most: int) -> int:
    """Return how many letters of a word may be wrong: always fewer than half of them.

    That is 0 for up to two letters, 1 for three or four, 2 for five or six, else up to 3.
    """
    return min(most, (len(word) - 1) // 2) if len(word) <= LONGEST_MISTYPED else 0


def pattern_near(word: str, distance: int) -> str:
    """Return a regular expression that matches all words within a distance, and others.

    Split a word into `distance` + 1 pieces: either one piece has no wrong letter, or two letters
    are swapped where two pieces meet. That piece or pair occurs unchanged, and the text before
    and after it has nearly the same length.
    """
    length, count = len(word), distance + 1
    cuts = [length * number // count for number in range(count + 1)]
    pieces = [(cuts[number], word[cuts[number] : cuts[number + 1]]) for number in range(count)]
    pieces += [(cut - 1, word[cut] + word[cut - 1]) for cut in cuts[1:-1]]
    return "|".join(
        f"{_letters(first, distance)}{piece}{_letters(length - first - len(piece), distance)}"
        for first, piece in pieces
    )


def _letters(number: int, distance: int) -> str:
    return f".{{{max(number - distance, 0)},{number + distance}}}"


def nearest_words(word: str, candidates: Iterable[str], most: int) -> dict[int, list[str]]:
    """Return the candidates within a distance, keyed by distance, nearest first."""
    found = ((distance_between(word, candidate, most), candidate) for candidate in candidates)
    near = sorted(pair for pair in found if 0 < pair[0] <= most)
    by_distance: dict[int, list[str]] = {}
    for distance, candidate in near[:MOST_WORDS]:
        by_distance.setdefault(distance, []).append(candidate)
    return by_distance


def distance_between(one: str, other: str, most: int) -> int:
    """Return the edit distance: letters added, removed, replaced, or swapped with the next one.

    No letter is edited twice. Returns `most` + 1 or more if the distance exceeds `most`.
    """
    earlier: list[int] = []
    before: list[int] = []
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one):
        earlier, before, row = before, row, [number + 1]
        for at, beside in enumerate(other):
            least = min(before[at] + (letter != beside), before[at + 1] + 1, row[at] + 1)
            if number and at and letter == other[at - 1] and beside == one[number - 1]:
                least = min(least, earlier[at - 1] + 1)
            row.append(least)
        if min(row) > most:
            return most + 1
    return row[-1]
