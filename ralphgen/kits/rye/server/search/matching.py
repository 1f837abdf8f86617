"""Says which items match a query, and how well.

A word counts the more, the fewer of the project's items have it, the more often an item does, the
shorter the item is, and by the field that it stands in (BM25).
"""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..values import INVALID_QUERY
from .index import LONGEST_WORD
from .queries import APART, FIELDS, WORD, Both, Leaf, Without, leaves_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .index import ItemTable
    from .queries import Node

WEIGHTS = (3.0, 3.0, 2.0, 1.5, 1.5, 1.0)  # of the fields, in their order
SATURATION = 1.2  # of BM25: how soon more of a word counts no more
LEAST_WORTH = 1e-6  # what FTS5 takes for the worth of a word that most items have
INEXACT = 0.5  # what a word counts of which only the beginning was given
MISTYPED = 0.02  # and one that is another word
MOST_ALIKE = 200  # words that a "*" stands for, which are looked up one by one
MOST_WORDS = 50  # that one word may have meant
LONGEST_MISTYPED = 64  # characters of a word that may be mistyped
MOST_MISTYPED = 20  # terms of a query for which other words are looked up


class Matching:
    """Matches queries with the items of a table, whose words may have `distance` wrong letters."""

    __slots__ = ("_distance", "_table")

    def __init__(self, table: ItemTable, distance: int) -> None:
        self._table = table
        self._distance = distance

    def scores(self, query: Node | None) -> dict[int, float]:
        """Return the rows that match, with their scores; raises `CodedError`."""
        if query is None:
            return dict.fromkeys(self._table.items, 0.0)
        if self._distance:
            _check_number(query)
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
        """Return the rows of a leaf, which is worth the more the fewer of all items have it."""
        from math import log

        counts = (_counted_by_text if leaf.wild else _counted)(self._table, leaf)
        if self._distance and may_be_mistyped(leaf):
            _add_mistyped(self._table, leaf, self._distance, counts)
        worth = log(1 + (len(self._table.items) - len(counts) + 0.5) / (len(counts) + 0.5))
        return {row: count * worth for row, count in counts.items()}


def _counted(table: ItemTable, leaf: Leaf) -> dict[int, float]:
    """Return the rows that have the words of a leaf, and how much that counts in each."""
    from math import log

    ranks = table.ranks(_expression(leaf, leaf.words, beginning=leaf.beginning), WEIGHTS)
    # FTS5 multiplies by a worth that is nothing for words that most items have; divided out again.
    common = log((len(table.items) - len(ranks) + 0.5) / (len(ranks) + 0.5))
    worth = common if common > 0 else LEAST_WORTH
    counts = {row: -rank / worth for row, rank in ranks}
    if leaf.beginning:
        exact = set(table.rows(_expression(leaf, leaf.words, beginning=False)))
        for row in counts.keys() - exact:
            counts[row] *= INEXACT
    return counts


def _counted_by_text(table: ItemTable, leaf: Leaf) -> dict[int, float]:
    """Return the same for a `*` within a word: the texts that may match are looked through."""
    wanted = [_alike(table, leaf, word) for word in _whole_words(leaf)]
    if None in wanted:
        return {}
    pattern = re.compile(pattern_of(leaf))
    weights = [WEIGHTS[FIELDS.index(leaf.field)]] if leaf.field else WEIGHTS
    held = leaf.held
    counts = {}
    for row, *texts in table.texts(" AND ".join(filter(None, wanted)), leaf.field):
        pairs = zip(texts, weights, strict=True)
        amount = sum(weight for text, weight in pairs if held in text and pattern.search(text))
        if amount:
            counts[row] = INEXACT * amount * (SATURATION + 1) / (amount + SATURATION)
    return counts


def _alike(table: ItemTable, leaf: Leaf, word: str) -> str | None:
    """Return what all rows match that have a word of a leaf.

    Empty where any row may have it, None where none has.
    """
    words = table.words(f"{_word_pattern(word)}|.{{{LONGEST_WORD}}}")  # or too long to say
    if len(words) > MOST_ALIKE:
        head = word.partition("*")[0]
        return _expression(leaf, (head,), beginning=True) if head else ""
    each = [_expression(leaf, (one,), beginning=len(one) == LONGEST_WORD) for one in words]
    return f"({' OR '.join(each)})" if each else None


def may_be_mistyped(leaf: Leaf) -> bool:
    """Return whether other words are looked up for a leaf, where that is asked for."""
    return leaf.plain and len(leaf.words) == 1


def _add_mistyped(table: ItemTable, leaf: Leaf, most: int, counts: dict[int, float]) -> None:
    """Add the rows that have another word, which the one of the leaf may have meant."""
    (word,) = leaf.words
    most = allowed_distance(word, most)
    if not most:
        return
    candidates = table.words(pattern_near(word, most))
    for distance, words in nearest_words(word, candidates, most).items():
        expression = " OR ".join(_expression(leaf, (near,), beginning=False) for near in words)
        for row in table.rows(expression):
            counts.setdefault(row, MISTYPED / distance)


def _check_number(query: Node) -> None:
    """Raise `CodedError` for more words than it is bearable to look for others like them."""
    mistyped = [leaf for leaf in leaves_of(query) if may_be_mistyped(leaf)]
    if len(mistyped) > MOST_MISTYPED:
        position = mistyped[MOST_MISTYPED].position
        raise CodedError(
            INVALID_QUERY,
            f"invalid query at character {position}: more than {MOST_MISTYPED} words with "
            '"fuzzy": remove some',
            position=position,
        )


def _expression(leaf: Leaf, words: Sequence[str], *, beginning: bool) -> str:
    """Return words, of letters, digits and marks alone, as an expression of FTS5."""
    phrase = f'"{" ".join(words)}"{" *" if beginning else ""}'
    return f"{leaf.field} : {phrase}" if leaf.field else phrase


def pattern_of(leaf: Leaf) -> str:
    """Return the words of a leaf as a regular expression that takes linear time."""
    patterns = map(_word_pattern, _whole_words(leaf))
    return f"(?<!{WORD}){f'{APART}+'.join(patterns)}(?!{WORD})"


def _whole_words(leaf: Leaf) -> list[str]:
    """Return the words of a leaf, each as a whole word is."""
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
    # Behind each `*` but the last, the first place of what follows is as good as any.
    return first + "".join(f"(?>{WORD}*?{part})" for part in inner) + f"{WORD}*{last}"


def allowed_distance(word: str, most: int) -> int:
    """Return how many letters of a word may be wrong: never so many that half of it would be left.

    None of one or two letters, one of three or four, two of five or six, else up to three.
    """
    return min(most, (len(word) - 1) // 2) if len(word) <= LONGEST_MISTYPED else 0


def pattern_near(word: str, distance: int) -> str:
    """Return a regular expression that each word within a distance matches, though not they alone.

    Cut into one piece more than letters are wrong, a word has a piece in which none is, or else two
    letters are swapped where two pieces meet. That piece, or these two letters, stand there as they
    are, and what goes before and after has nearly the same length.
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
    """Return the candidates within a distance, by how far they are: the nearest, then the first."""
    found = ((distance_between(word, candidate, most), candidate) for candidate in candidates)
    near = sorted(pair for pair in found if 0 < pair[0] <= most)
    by_distance: dict[int, list[str]] = {}
    for distance, candidate in near[:MOST_WORDS]:
        by_distance.setdefault(distance, []).append(candidate)
    return by_distance


def distance_between(one: str, other: str, most: int) -> int:
    """Return how many letters must be added, removed, replaced, or swapped with the next one.

    None is touched twice. It is more than `most` where it would be too many.
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
