"""Reads the list of what a statement returns: which items are columns as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ralphgen.project.queries.tokens import Token

VERBS = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_SETS = ("UNION", "EXCEPT", "INTERSECT")


@dataclass(frozen=True, slots=True)
class ReturnedItem:
    """One item: `column` as (table or alias, name) where it is a plain one, and `is_all` for *.

    `is_named` says that it has been given a name with AS.
    """

    column: tuple[str, str] | None = None
    is_all: bool = False
    is_named: bool = False

    @property
    def is_given(self) -> bool:
        """Whether its name is one that somebody gave it."""
        return self.is_named or self.column is not None


def outermost(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """Return the tokens that stand in no parentheses, each with its place."""
    depth, found = 0, []
    for at, token in enumerate(tokens):
        depth -= token.text == ")"
        if depth == 0:
            found.append((at, token))
        depth += token.text == "("
    return found


def verb_and_table(tokens: Sequence[Token]) -> tuple[str, str]:
    """Return what the statement does and to which table; empty texts where it only reads.

    `tokens` are without comments and spaces.
    """
    for at, token in outermost(tokens):
        if token.is_word(*VERBS):
            return token.text.upper(), _target(tokens[at + 1 : at + 8])
        if token.is_word("SELECT", "VALUES"):
            break
    return "", ""


def _target(tokens: Sequence[Token]) -> str:
    """Return the name of the table behind a verb."""
    match [token for token in tokens if not token.is_word("INTO", "FROM", "ONLY")]:
        case [first, _, *rest] if first.is_word("OR"):  # INSERT OR REPLACE INTO
            return _target(rest)
        case [_, Token(text="."), name, *_] | [name, *_]:
            return str(name.name)
    return ""


def inserted(tokens: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the columns that an INSERT names, None where it gives a value to each of the table.

    `tokens` are without comments and spaces.
    """
    found = outermost(tokens)
    begins = next(at for at, (_, token) in enumerate(found) if token.is_word("INSERT"))
    for place, token in found[begins:]:
        if token.text == "(":
            names = (one for one in items_of(tokens[place + 1 : _closing(tokens, place)]))
            return tuple(item.column[1] for item in names if item.column)
        if token.is_word("DEFAULT"):
            return ()
        if token.is_word("VALUES", "SELECT", "WITH"):
            break
    return None


def _closing(tokens: Sequence[Token], place: int) -> int:
    """Return where the parenthesis ends that opens at a place."""
    depth = 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if not depth:
            return at
    return len(tokens)


def replaces(tokens: Sequence[Token]) -> bool:
    """Return whether an INSERT may change or take the place of a row that is there."""
    words = [token.text.upper() for token in tokens]
    return any(pair in (("OR", "REPLACE"), ("DO", "UPDATE")) for pair in pairwise(words))


def returned(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens behind RETURNING, none where there is none."""
    for at, token in outermost(tokens):
        if token.is_word("RETURNING"):
            return tuple(tokens[at + 1 :])
    return ()


def selected(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens of the list of a plain SELECT; none where what it selects is not plain."""
    if not tokens or not tokens[0].is_word("SELECT"):
        return ()
    if sum(token.is_word("SELECT", "VALUES") for token in tokens) > 1:
        return ()
    start = 2 if len(tokens) > 1 and tokens[1].is_word("DISTINCT", "ALL") else 1
    ends = [at for at, token in outermost(tokens) if token.is_word("FROM", *_SETS)]
    return tuple(tokens[start : ends[0]]) if ends else ()


def items_of(tokens: Sequence[Token]) -> list[ReturnedItem]:
    """Return the items of a list."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [_item(part) for part in parts if part]


def _item(part: Sequence[Token]) -> ReturnedItem:
    match part:
        case [*_, Token(text="*")] if len(part) in (1, 3):
            return ReturnedItem(is_all=True)
        case [*value, named, _] if named.is_word("AS"):
            return ReturnedItem(_item(value).column if value else None, is_named=True)
        case [column] if column.name:
            return ReturnedItem(("", column.name))
        case [table, Token(text="."), column] if table.name and column.name:
            return ReturnedItem((table.name, column.name))
    return ReturnedItem()
