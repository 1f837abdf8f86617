"""Finds the column that a parameter is compared with, or stored in, which says its type."""

from collections.abc import Sequence

from ralphgen.project.queries.tokens import Token

Column = tuple[str, str]
"""A column as the statement names it: by a table or its alias, or an empty text, and its name."""

_SIGNS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_TEXTS = ("LIKE", "GLOB", "ILIKE")
_BEFORE = ("AND", "OR", "NOT", "WHERE", "ON", "SET", "HAVING", "WHEN", "BETWEEN", "SELECT", "THEN")
_BEHIND = (
    *("AND", "OR", "THEN", "WHEN", "ELSE", "END", "GROUP", "ORDER", "LIMIT", "HAVING", "WHERE"),
    *("RETURNING", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "ON", "JOIN", "LEFT", "INNER", "FROM"),
    *("OFFSET", "AS", "ESCAPE", "COLLATE"),
)


def compared_columns(tokens: Sequence[Token], name: str) -> list[Column | str]:
    """Return, for each place of a parameter that tells its type, the column there, or a type.

    `tokens` are those of the statement without comments and spaces. A type is "integer" behind
    LIMIT and OFFSET, and "text" behind LIKE.
    """
    found: list[Column | str] = []
    for at, token in enumerate(tokens):
        if token.kind == "parameter" and token.text[1:] == name and _ends(tokens, at + 1):
            known = _at(tokens, at)
            if known:
                found.append(known)
    return found


def _at(tokens: Sequence[Token], at: int) -> Column | str | None:
    """Return what one place of a parameter tells."""
    none = Token("", "", 0)
    third, second, before = [none, none, none, *tokens[:at]][-3:]
    behind = tokens[at + 1] if at + 1 < len(tokens) else none
    found: Column | str | None = None
    if before.is_word("LIMIT", "OFFSET"):
        found = "integer"
    elif before.is_word(*_TEXTS):
        found = "text"
    elif before.text in _SIGNS or before.is_word("IS", "BETWEEN"):
        found = _left(tokens, at - 1)
    elif before.is_word("NOT") and second.is_word("IS"):
        found = _left(tokens, at - 2)
    elif before.is_word("AND") and third.is_word("BETWEEN"):
        found = _left(tokens, at - 3)
    elif before.text in ("(", ","):
        found = _listed(tokens, at)
    if found is None and behind.text in _SIGNS and _begins(tokens, at - 1):
        found = _right(tokens, at + 2)
    return found


def _ends(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operand ends before a token, so that nothing is added to it."""
    if at >= len(tokens):
        return True
    token = tokens[at]
    return token.text in (*_SIGNS, ")", ",") or token.is_word(*_BEHIND, "IS", *_TEXTS)


def _left(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column that is the whole operand before an operator."""
    if at and tokens[at - 1].is_word("NOT"):
        at -= 1
    return _chain(tokens, at - 1, is_whole=True)


def _begins(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operand begins behind a token."""
    return at < 0 or tokens[at].text in ("(", ",") or tokens[at].is_word(*_BEFORE)


def _right(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column that is the whole operand behind an operator."""
    end = at + 2 if at + 2 < len(tokens) and tokens[at + 1].text == "." else at
    return _chain(tokens, end, is_whole=False) if _ends(tokens, end + 1) else None


def _chain(tokens: Sequence[Token], at: int, *, is_whole: bool) -> Column | None:
    """Return the column whose name ends at a token; with `is_whole` the operand begins with it."""
    if not 0 <= at < len(tokens) or not tokens[at].name:
        return None
    table, before = "", at - 1
    if before > 0 and tokens[before].text == "." and tokens[before - 1].name:
        table, before = tokens[before - 1].name, before - 2
    return (table, tokens[at].name) if not is_whole or _begins(tokens, before) else None


def _listed(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column whose value stands in a list: behind IN, or in VALUES of an INSERT."""
    opening = at - 1
    place = 0
    while opening >= 0 and tokens[opening].text != "(":
        if tokens[opening].text == ")":
            return None
        place += tokens[opening].text == ","
        opening -= 1
    if opening < 1:
        return None
    if tokens[opening - 1].is_word("IN"):
        return _left(tokens, opening - 1)
    if tokens[opening - 1].is_word("VALUES"):
        return _inserted(tokens, opening - 1, place)
    return None


def _inserted(tokens: Sequence[Token], values: int, place: int) -> Column | None:
    """Return the column of an INSERT whose value stands at a place in its VALUES."""
    closing = values - 1
    opening = closing
    while opening >= 0 and tokens[opening].text != "(":
        opening -= 1
    names = [token.name for token in tokens[opening + 1 : closing] if token.text != ","]
    if opening < 1 or tokens[closing].text != ")" or place >= len(names) or not names[place]:
        return None
    return (tokens[opening - 1].name, names[place])
