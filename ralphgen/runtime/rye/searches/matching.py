"""Says which items match a query, and how well.

A word counts the more, the fewer of the searched items have it, the more often an item does, the
shorter the item is, and by the field that it stands in (BM25).
"""

from __future__ import annotations

import re

from ...errors import CodedError
from ..codes import INVALID_QUERY
from .fuzzy import allowed_distance, nearest_words, pieces_of
from .queries import Both, Without, leaves_of
from .terms import FIELDS, Leaf
from .words import APART, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .queries import Node
    from .shelf import Shelf

WEIGHTS = (3.0, 3.0, 2.0, 1.5, 1.5, 1.0)  # of the fields, in their order
SATURATION = 1.2  # of BM25: how soon more of a word counts no more
INEXACT = 0.5  # what a word counts of which only the beginning was given
MISTYPED = 0.02  # and one that is another word
MOST_MISTYPED = 20  # terms of a query for which other words are looked up


class Matching:
    """Matches queries with the items of some shelves; words may be wrong by `distance` letters."""

    __slots__ = ("_distance", "_shelves", "total")

    def __init__(self, shelves: Sequence[Shelf], distance: int) -> None:
        self._shelves = shelves
        self._distance = distance
        self.total = sum(len(shelf.ids) for shelf in shelves)

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

        counted = _counted_by_text if leaf.wild else _counted
        found = [counted(shelf, leaf) for shelf in self._shelves]
        if self._distance and _may_be_mistyped(leaf):
            for shelf, counts in zip(self._shelves, found, strict=True):
                _add_mistyped(shelf, leaf, self._distance, counts)
        having = sum(map(len, found))
        worth = log(1 + (self.total - having + 0.5) / (having + 0.5))
        return [{row: count * worth for row, count in counts.items()} for counts in found]


def _common(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {row: score + other[row] for row, score in one.items() if row in other}


def _joined(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    return {**one, **{row: score + one.get(row, 0.0) for row, score in other.items()}}


def _counted(shelf: Shelf, leaf: Leaf) -> dict[int, float]:
    """The rows that have the words of a leaf, and how much that counts in each."""
    from math import log

    expression = _expression(leaf, leaf.words, beginning=leaf.beginning)
    ranks = shelf.ranks(expression, WEIGHTS)
    # FTS5 multiplies by what the words are worth in this shelf alone, which is undone here.
    common = log((len(shelf.ids) - len(ranks) + 0.5) / (len(ranks) + 0.5))
    worth = common if common > 0 else 1e-6
    counts = {row: -rank / worth for row, rank in ranks}
    if leaf.beginning:
        exact = set(shelf.rows(_expression(leaf, leaf.words, beginning=False)))
        for row in counts.keys() - exact:
            counts[row] *= INEXACT
    return counts


def _counted_by_text(shelf: Shelf, leaf: Leaf) -> dict[int, float]:
    """The same where a `*` stands within a word: the texts themselves are looked through."""
    pattern = re.compile(pattern_of(leaf))
    heads = [word.partition("*")[0] for word in leaf.words]
    wanted = [_expression(leaf, (head,), beginning=True) for head in heads if head]
    weights = [WEIGHTS[FIELDS.index(leaf.field)]] if leaf.field else WEIGHTS
    held = max("*".join(leaf.words).split("*"), key=len)  # found faster than the whole pattern
    counts = {}
    for row, *texts in shelf.texts(" AND ".join(wanted), leaf.field):
        pairs = zip(texts, weights, strict=True)
        amount = sum(weight for text, weight in pairs if held in text and pattern.search(text))
        if amount:
            counts[row] = INEXACT * amount * (SATURATION + 1) / (amount + SATURATION)
    return counts


def _may_be_mistyped(leaf: Leaf) -> bool:
    return leaf.plain and len(leaf.words) == 1


def _add_mistyped(shelf: Shelf, leaf: Leaf, most: int, counts: dict[int, float]) -> None:
    """Add the rows that have another word, which the one of the leaf may have meant."""
    (word,) = leaf.words
    most = allowed_distance(word, most)
    if not most:
        return
    candidates = shelf.words(pieces_of(word, most), len(word) - most, len(word) + most)
    for distance, words in nearest_words(word, candidates, most).items():
        expression = " OR ".join(_expression(leaf, (near,), beginning=False) for near in words)
        for row in shelf.rows(expression):
            counts.setdefault(row, MISTYPED / distance)


def _check_number(query: Node) -> None:
    """Raise `CodedError` for more words than it is bearable to look for others like them."""
    mistyped = [leaf for leaf in leaves_of(query) if _may_be_mistyped(leaf)]
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
    *words, last = leaf.words
    patterns = map(_word_pattern, [*words, f"{last}*" if leaf.beginning else last])
    return f"(?<!{WORD}){f'{APART}+'.join(patterns)}(?!{WORD})"


def _word_pattern(word: str) -> str:
    """A word; behind each `*` but the last, the first place of what follows is as good as any."""
    if word == "*":
        return f"{WORD}+"
    first, *others = word.split("*")
    if not others:
        return word
    *inner, last = others
    return first + "".join(f"(?>{WORD}*?{part})" for part in inner) + f"{WORD}*{last}"
