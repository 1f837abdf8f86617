"""Reads the allowed values of a column from CHECKs, as the database prints them."""

from __future__ import annotations

import re

# The output of `pg_get_constraintdef`. A string with a backslash begins with E.
_TOKENS = re.compile(
    r"""\s*(
    E?'(?:[^']|'')*'
    |"(?:[^"]|"")*"
    |::
    |[^\W\d][\w$]*
    |[0-9][0-9.]*
    |\S)""",
    re.VERBOSE,
)
_CAST = re.compile(r'"(?:[^"]|"")*"|[^\W\d][\w$]*|\.|\[|\]')  # the parts of a type without a length
_CONNECTIVES = frozenset({"AND", "OR", "IS", "NOT"})
_INTEGER = "0|-?[1-9][0-9]*"


def check_values(definition: str) -> list[str] | None:
    """Return the values that a CHECK of one column allows, `None` if it is uncertain.

    `definition` is from `pg_get_constraintdef`. The supported forms are `col IN (…)`, printed as
    `col = ANY (ARRAY[…])` or, with one value, `col = …`, and both with `OR col IS NULL`. In a
    domain's CHECK the column is called VALUE.
    """
    tokens = _TOKENS.findall(definition)
    if [token.upper() for token in tokens[-2:]] == ["NOT", "ENFORCED"]:
        return None
    if tokens[:2] != ["CHECK", "("]:
        return None
    inner = tokens[1 : _closing(tokens, 1) + 1]
    match _split(_unwrapped(_without_casts(inner)), "OR"):
        case [only]:
            return _listed(only)
        case [left, right]:
            for first, second in ((left, right), (right, left)):
                if _is_null_test(first):
                    return _listed(second)
    return None


def kept_values(kind: str, allowed: list[str] | None) -> list[str] | None:
    """Return the values if a column of this type stores them unchanged, or None."""
    if allowed is None or kind == "TEXT":
        return allowed
    plain = kind == "INTEGER" and all(re.fullmatch(_INTEGER, value) for value in allowed)
    return allowed if plain else None


def _without_casts(tokens: list[str]) -> list[str]:
    """Return the tokens without casts, except casts with a length: these change values."""
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at] != "::":
            kept.append(tokens[at])
            at += 1
            continue
        end = at + 1
        while (
            end < len(tokens)
            and _CAST.fullmatch(tokens[end])
            and tokens[end].upper() not in _CONNECTIVES
            and not (tokens[end] == "]" and tokens[end - 1] != "[")
        ):
            end += 1
        if tokens[end : end + 1] == ["("]:
            kept.append(tokens[at])
        at = end
    return kept


def _listed(tokens: list[str]) -> list[str] | None:
    """Return the values of `col = ANY (ARRAY[…])` or `col = …`."""
    match _split(_unwrapped(tokens), "="):
        case [left, ["ANY", *array]] if _is_name(left):
            match _unwrapped(array):
                case ["ARRAY", "[", *inner, "]"]:
                    return _literals(inner)
        case [left, right] if _is_name(left):
            return _literals(right)
    return None


def _is_null_test(tokens: list[str]) -> bool:
    tokens = _unwrapped(tokens)
    return tokens[-2:] == ["IS", "NULL"] and _is_name(tokens[:-2])


def _is_name(tokens: list[str]) -> bool:
    tokens = _unwrapped(tokens)
    return len(tokens) == 1 and (tokens[0][0] == '"' or tokens[0][0].isalpha() or "_" in tokens[0])


def _literals(tokens: list[str]) -> list[str] | None:
    """Return the distinct values of a list of texts or whole numbers."""
    found = [_literal(_unwrapped(item)) for item in _split(tokens, ",")]
    values = [value for value in found if value is not None]
    return list(dict.fromkeys(values)) if len(values) == len(found) else None


def _literal(tokens: list[str]) -> str | None:
    sign = "-" if tokens[:1] == ["-"] else ""
    match tokens[1:] if sign else tokens:
        case [text] if not sign and text.startswith("'"):
            return text[1:-1].replace("''", "'")
        case [text] if not sign and text.startswith("E'"):
            return text[2:-1].replace("''", "'").replace("\\\\", "\\")
        case [number] if number.isascii() and number.isdigit():
            return f"{sign}{number}"
    return None


def _unwrapped(tokens: list[str]) -> list[str]:
    """Return the tokens without the parentheses that enclose all of them."""
    while tokens[:1] == ["("] and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: list[str], opening: int) -> int:
    """Return the index of what closes the parenthesis at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index] == "(") - (tokens[index] == ")")
        if not depth:
            return index
    return len(tokens)


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    """Return the parts between separators that stand outside of parentheses and brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in ("(", "[")) - (token in (")", "]"))
        if not depth and token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
