"""Reads the allowed values of columns out of the CHECKs of a CREATE TABLE text."""

from __future__ import annotations

import re

from ..schema import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# SQLite's tokens. Group 1 is empty for skipped text: comments and five kinds of white space.
# A name begins with anything but the ASCII characters listed, so with a no-break space too.
_TOKENS = re.compile(
    r"""(?:--[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|[ \t\n\f\r]+)+
    |([xX]?'[^']*(?:''[^']*)*'
    |"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|\[[^\]]*\]
    |[^\0-@\[-^`{-\x7f][^\0-#%-/:-@\[-^`{-\x7f]*
    |[0-9][A-Za-z0-9_.]*
    |[^ ])""",
    re.VERBOSE,
)
_TABLE_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
_DECIMAL = "[0-9]{1,19}"
_INTEGER_LIMIT = 2**63


def check_values(create_table_sql: str) -> dict[str, list[str]]:
    """Return the values that CHECKs allow, by column, for the supported forms of CHECK.

    These are `col IN ('a', ...)` and `col IS NULL OR col IN (...)`, in either order and in any
    number of parentheses, with only text literals or only whole numbers (as decimal text).
    Several such CHECKs on one column are intersected, in the order of the first.
    `create_table_sql` is from `sqlite_master.sql`; a virtual table has no CHECKs.
    """
    tokens = sql_tokens(create_table_sql)
    if "VIRTUAL" in _upper(tokens[:2]):
        return {}
    columns = {fold(name): name for name in _column_names(tokens)}
    found: dict[str, list[str]] = {}
    for expression in _check_expressions(tokens):
        listed = _listed(expression)
        if listed is not None and listed[0] in columns:
            column, values = columns[listed[0]], listed[1]
            found[column] = [v for v in found.get(column, values) if v in values]
    return {column: values for column, values in found.items() if values}


def named_checks(create_table_sql: str) -> dict[str, str]:
    """Return the named CHECKs of a table, by folded name."""
    tokens = sql_tokens(create_table_sql)
    words = _upper(tokens)
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word == "CONSTRAINT" and words[index + 2 : index + 4] == ["CHECK", "("]:
            name = _name(tokens[index + 1], strings=True) or tokens[index + 1]
            inner = tokens[index + 4 : _closing(tokens, index + 3)]
            found[fold(name)] = " ".join(inner)
    return found


def is_strict(create_table_sql: str) -> bool:
    """Return whether the table is STRICT, by the words after the last parenthesis."""
    tokens = sql_tokens(create_table_sql)
    behind = len(tokens) - tokens[::-1].index(")") if ")" in tokens else len(tokens)
    return "STRICT" in _upper(tokens[behind:])


def sql_tokens(sql: str) -> list[str]:
    """Return the tokens of a statement as SQLite reads them, without comments and white space."""
    return [token for token in _TOKENS.findall(sql) if token]


def _upper(tokens: list[str]) -> list[str]:
    return [token.upper() for token in tokens]


def _depths(tokens: list[str]) -> Iterator[tuple[int, str, int]]:
    """Yield each token with its index and the number of parentheses around it."""
    depth = 0
    for index, part in enumerate(tokens):
        depth -= part == ")"
        yield index, part, depth
        depth += part == "("


def _column_names(tokens: list[str]) -> Iterator[str]:
    for index, token, depth in _depths(tokens):
        opens = depth == 1 and tokens[index - 1] in {"(", ","}
        if opens and token.upper() not in _TABLE_CONSTRAINTS:
            yield _name(token, strings=True) or token


def _check_expressions(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the tokens inside the parentheses of each CHECK; the unquoted word is a keyword."""
    for index, word in enumerate(_upper(tokens)):
        if word == "CHECK" and tokens[index + 1 : index + 2] == ["("]:
            yield tokens[index + 2 : _closing(tokens, index + 1)]


def _closing(tokens: list[str], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`."""
    for index, part, depth in _depths(tokens[opening:]):
        if depth == 0 and part == ")":
            return opening + index
    return len(tokens)


def _listed(expression: list[str]) -> tuple[str, list[str]] | None:
    """Return the casefolded column and the values of one CHECK, `None` if it is uncertain."""
    match _split(_unwrapped(expression), "OR"):
        case [only]:
            return _in_list(only)
        case [left, right]:
            for first, second in ((left, right), (right, left)):
                column, listed = _null_test(first), _in_list(second)
                if listed is not None and listed[0] == column:
                    return listed
    return None


def _in_list(tokens: list[str]) -> tuple[str, list[str]] | None:
    match _split(_unwrapped(tokens), "IN"):
        case [left, ["(", *inner, ")"]]:
            column, values = _name_of(left), _literals(inner)
            return None if column is None or values is None else (column, values)
    return None


def _null_test(tokens: list[str]) -> str | None:
    tokens = _unwrapped(tokens)
    words = _upper(tokens)
    if words[-1:] == ["ISNULL"]:
        return _name_of(tokens[:-1])
    return _name_of(tokens[:-2]) if words[-2:] == ["IS", "NULL"] else None


def _name_of(tokens: list[str]) -> str | None:
    """Return the folded name of a column that stands alone."""
    tokens = _unwrapped(tokens)
    name = _name(tokens[0]) if len(tokens) == 1 else None
    return None if name is None else fold(name)


def _name(token: str, *, strings: bool = False) -> str | None:
    """Return the name that a token spells; with `strings` also 'x', as in declarations."""
    quote = token[0]
    if quote == "[":
        return token[1:-1]
    if quote in '"`' or (strings and quote == "'"):
        return token[1:-1].replace(quote * 2, quote)
    return token if quote.isalpha() or quote == "_" or quote > "\x7f" else None


def _literals(tokens: list[str]) -> list[str] | None:
    """Return the distinct values of a list; `None` unless all are text or all whole numbers."""
    items = [_unwrapped(item) for item in _split(tokens, ",")]
    texts = [_text(item) for item in items]
    integers = [_integer(item) for item in items]
    for values in (texts, integers):
        known = [value for value in values if value is not None]
        if len(known) == len(items):
            return list(dict.fromkeys(known))
    return None


def _text(tokens: list[str]) -> str | None:
    is_text = len(tokens) == 1 and tokens[0].startswith("'")
    return tokens[0][1:-1].replace("''", "'") if is_text else None


def _integer(tokens: list[str]) -> str | None:
    sign = -1 if tokens[:1] == ["-"] else 1
    digits = tokens[1:] if tokens[:1] in (["-"], ["+"]) else tokens
    if len(digits) != 1 or not re.fullmatch(_DECIMAL, digits[0]):
        return None
    number = sign * int(digits[0])
    return str(number) if -_INTEGER_LIMIT < number < _INTEGER_LIMIT else None


def _unwrapped(tokens: list[str]) -> list[str]:
    """Return the tokens without the parentheses that enclose all of them."""
    while tokens[:1] == ["("] and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    """Return the parts between separators that stand outside of parentheses."""
    parts: list[list[str]] = [[]]
    for _, token, depth in _depths(tokens):
        if depth == 0 and token.upper() == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
