"""Says which items match a query, and how well.

A word counts the more, the fewer of the searched items have it, the more often an item does, the
shorter the item is, and by the field that it stands in (BM25).
"""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..failures import INVALID_QUERY
from .queries import FIELDS, Both, Leaf, Without, leaves_of
from .table import LONGEST_WORD
from .words import APART, WORD, allowed_distance, nearest_words, pattern_near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .queries import Node
    from .table import Shelf

WEIGHTS = (3.0, 3.0, 2.0, 1.5, 1.5, 1.0)  # of the fields, in their order
SATURATION = 1.2  # of BM25: how soon more of a word counts no more
BY_LENGTH = 0.75  # and how much of that is by the length of the item
INEXACT = 0.5  # what a word counts of which only the beginning was given
MISTYPED = 0.02  # and one that is another word
MOST_ALIKE = 200  # words that a "*" stands for, which are looked up one by one
MOST_MISTYPED = 20  # terms of a query for which other words are looked up


class Matching:
    """Matches queries with the items of some shelves; words may be wrong by `distance` letters."""

    __slots__ = ("_distance", "_mean", "_means", "_shelves", "total")

    def __init__(self, shelves: Sequence[Shelf], distance: int) -> None:
        self._shelves = shelves
        self._distance = distance
        self.total = sum(len(shelf.ids) for shelf in shelves)
        words = [sum(shelf.lengths.values()) for shelf in shelves]
        self._mean = sum(words) / max(sum(len(shelf.lengths) for shelf in shelves), 1)
        self._means = [
            total / max(len(shelf.lengths), 1) for total, shelf in zip(words, shelves, strict=True)
        ]

    def scores(self, query: Node | None) -> list[dict[int, float]]:
        """For each shelf, the rows that match and their scores. Raises `CodedError`."""
        if query is None:
            return [dict.fromkeys(shelf.ids, 0.0) for shelf in self._shelves]
        if self._distance:
            _check_number(query)
        return self._of(query)

    def _of(self, node: Node) -> list[dict[int, float]]:
        if isinstance(node, Leaf):
            return self._leaf(node)
        if isinstance(node, Without):
            pairs = zip(self._shelves, self._of(node.part), strict=True)
            return [dict.fromkeys(shelf.ids.keys() - found, 0.0) for shelf, found in pairs]
        join = _common if isinstance(node, Both) else _joined
        found = self._of(node.parts[0])
        for part in node.parts[1:]:
            found = [*map(join, found, self._of(part))]
        return found

    def _leaf(self, leaf: Leaf) -> list[dict[int, float]]:
        """The rows of a leaf, whose worth depends on how many of all items have it."""
        from math import log

        found = [
            _counted_by_text(shelf, leaf) if leaf.wild else _counted(shelf, leaf, own, self._mean)
            for shelf, own in zip(self._shelves, self._means, strict=True)
        ]
        if self._distance and may_be_mistyped(leaf):
            for shelf, counts in zip(self._shelves, found, strict=True):
                _add_mistyped(shelf, leaf, self._distance, counts)
        having = sum(map(len, found))
        worth = log(1 + (self.total - having + 0.5) / (having + 0.5))
        return [{row: count * worth for row, count in counts.items()} for counts in found]


def _common(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {row: score + other[row] for row, score in one.items() if row in other}


def _joined(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {**one, **{row: score + one.get(row, 0.0) for row, score in other.items()}}


def _counted(shelf: Shelf, leaf: Leaf, own: float, mean: float) -> dict[int, float]:
    """The rows that have the words of a leaf, and how much that counts in each.

    `own` is the average length of the items of the shelf, and `mean` that of all.
    """
    from math import log

    expression = _expression(leaf, leaf.words, beginning=leaf.beginning)
    ranks = shelf.ranks(expression, WEIGHTS)
    # FTS5 multiplies by what the words are worth in this shelf alone, which is undone here.
    common = log((len(shelf.ids) - len(ranks) + 0.5) / (len(ranks) + 0.5))
    worth = common if common > 0 else 1e-6
    counts = {row: -rank / worth for row, rank in ranks}
    if counts and own != mean:
        _rescale(counts, shelf.lengths, own, mean)
    if leaf.beginning:
        exact = set(shelf.rows(_expression(leaf, leaf.words, beginning=False)))
        for row in counts.keys() - exact:
            counts[row] *= INEXACT
    return counts


def _rescale(counts: dict[int, float], lengths: Mapping[int, int], own: float, mean: float) -> None:
    """Make of counts, in which FTS5 held lengths against one average, those with another."""
    most, fixed = SATURATION + 1, SATURATION * (1 - BY_LENGTH)
    each_own, each_mean = (SATURATION * BY_LENGTH / average for average in (own, mean))
    for row, count in counts.items():
        length = lengths[row]
        part = count * (fixed + each_own * length)
        counts[row] = most * part / (part + (fixed + each_mean * length) * (most - count))


def _counted_by_text(shelf: Shelf, leaf: Leaf) -> dict[int, float]:
    """The same where a `*` stands within a word: the texts that may match are looked through."""
    wanted = [_alike(shelf, leaf, word) for word in _whole_words(leaf)]
    if None in wanted:
        return {}
    pattern = re.compile(pattern_of(leaf))
    weights = [WEIGHTS[FIELDS.index(leaf.field)]] if leaf.field else WEIGHTS
    held = leaf.held
    counts = {}
    for row, *texts in shelf.texts(" AND ".join(filter(None, wanted)), leaf.field):
        pairs = zip(texts, weights, strict=True)
        amount = sum(weight for text, weight in pairs if held in text and pattern.search(text))
        if amount:
            counts[row] = INEXACT * amount * (SATURATION + 1) / (amount + SATURATION)
    return counts


def _alike(shelf: Shelf, leaf: Leaf, word: str) -> str | None:
    """What all rows match that have a word of a leaf; empty if any may, None if none does."""
    words = shelf.words(f"{_word_pattern(word)}|.{{{LONGEST_WORD}}}")  # or too long to say
    if len(words) > MOST_ALIKE:
        head = word.partition("*")[0]
        return _expression(leaf, (head,), beginning=True) if head else ""
    each = [_expression(leaf, (one,), beginning=len(one) == LONGEST_WORD) for one in words]
    return f"({' OR '.join(each)})" if each else None


def may_be_mistyped(leaf: Leaf) -> bool:
    """Whether other words are looked up for a leaf, where that is asked for."""
    return leaf.plain and len(leaf.words) == 1


def _add_mistyped(shelf: Shelf, leaf: Leaf, most: int, counts: dict[int, float]) -> None:
    """Add the rows that have another word, which the one of the leaf may have meant."""
    (word,) = leaf.words
    most = allowed_distance(word, most)
    if not most:
        return
    candidates = shelf.words(pattern_near(word, most))
    for distance, words in nearest_words(word, candidates, most).items():
        expression = " OR ".join(_expression(leaf, (near,), beginning=False) for near in words)
        for row in shelf.rows(expression):
            counts.setdefault(row, MISTYPED / distance)


def _check_number(query: Node) -> None:
    """Raise `CodedError` for more words than it is bearable to look for others like them."""
    mistyped = [leaf for leaf in leaves_of(query) if may_be_mistyped(leaf)]
    if len(mistyped) > MOST_MISTYPED:
        position = mistyped[MOST_MISTYPED].position
        raise CodedError(
            INVALID_QUERY,
            f"the query cannot be understood at character {position}: it has more than "
            f'{MOST_MISTYPED} words, which is too many for "fuzzy": leave some out',
            position=position,
        )


def _expression(leaf: Leaf, words: Sequence[str], *, beginning: bool) -> str:
    """Words as an expression of FTS5; they hold nothing but letters, digits and their marks."""
    phrase = f'"{" ".join(words)}"{" *" if beginning else ""}'
    return f"{leaf.field} : {phrase}" if leaf.field else phrase


def pattern_of(leaf: Leaf) -> str:
    """The words of a leaf as a regular expression on folded texts, which takes linear time."""
    patterns = map(_word_pattern, _whole_words(leaf))
    return f"(?<!{WORD}){f'{APART}+'.join(patterns)}(?!{WORD})"


def _whole_words(leaf: Leaf) -> list[str]:
    """The words of a leaf, each as a whole word is."""
    *words, last = leaf.words
    return [*words, f"{last}*" if leaf.beginning else last]


def _word_pattern(word: str) -> str:
    """A word; behind each `*` but the last, the first place of what follows is as good as any."""
    if word == "*":
        return f"{WORD}+"
    first, *others = word.split("*")
    if not others:
        return word
    *inner, last = others
    return first + "".join(f"(?>{WORD}*?{part})" for part in inner) + f"{WORD}*{last}"
