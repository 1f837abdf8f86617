"""Finds the columns to which a statement that writes ties the rows that it writes."""

from collections.abc import Iterator, Sequence

from ralphgen.project.queries.items import outermost
from ralphgen.project.queries.tokens import Token
from ralphgen.runtime.engine.schema import fold

_JOINS = ("FROM", "USING")  # whose columns would have to be told from those of the table
_MIXED = ("OR", "BETWEEN", "CASE")  # which conditions hold then is not plain
_ENDS = ("RETURNING", "ON")


def tied_columns(tokens: Sequence[Token], verb: str) -> dict[str, str]:
    """Return, by parameter, the column that has its value in every row that is written.

    `tokens` are those of the statement without comments and spaces. What is not plain to see is
    left out: only `column = :name` among conditions that all have to hold, and the values of the
    one row that an INSERT spells out.
    """
    outer = outermost(tokens)
    begins = [at for at, token in outer if token.is_word(verb)]
    if not begins:
        return {}
    behind = [(at, token) for at, token in outer if at > begins[0]]
    return dict(_inserted(tokens, behind) if verb == "INSERT" else _compared(tokens, behind))


def _compared(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield what the conditions of an UPDATE or DELETE say; `outer` begins behind that word."""
    places = [at for at, token in outer if token.is_word("WHERE")]
    rest = outer[1:] if outer and outer[0][1].is_word("FROM") else outer
    if len(places) != 1 or any(
        token.is_word(*_JOINS) or (at > places[0] and token.is_word(*_MIXED)) for at, token in rest
    ):
        return
    ends = [at for at, token in outer if at > places[0] and token.is_word("RETURNING")]
    part: list[Token] = []
    stops = {at for at, token in outer if token.is_word("AND")}
    for at in range(places[0] + 1, len(tokens)):
        if ends and at >= ends[0]:
            break
        if at in stops:
            yield from _tie(part)
            part = []
        else:
            part.append(tokens[at])
    yield from _tie(part)


def _tie(part: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the parameter and the column of one condition, where it is such a one."""
    places = [at for at, token in enumerate(part) if token.text == "="]
    if len(places) != 1:
        return
    sides = (part[: places[0]], part[places[0] + 1 :])
    for one, other in (sides, sides[::-1]):
        name = _parameter(one)
        match other:
            case [column] | [_, Token(text="."), column] if name and column.name:
                yield name, _stored(column)


def _inserted(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield what the one row of an INSERT is given."""
    ends = [at for at, token in outer if token.is_word(*_ENDS)]
    signs = [
        (at, token)
        for at, token in outer
        if token.text in ("(", ")", ",") and (not ends or at < ends[0])
    ]
    values = [at for at, token in outer if token.is_word("VALUES")]
    match signs:
        case [(first, _), (second, _), (third, _), (fourth, _)] if len(values) == 1:
            columns = _parts(tokens[first + 1 : second])
            given = _parts(tokens[third + 1 : fourth])
            if second < values[0] < third and len(columns) == len(given):
                for column, value in zip(columns, given, strict=True):
                    if len(column) == 1 and (name := _parameter(value)):
                        yield name, _stored(column[0])


def _stored(column: Token) -> str:
    """Return the name of a column as the database keeps it."""
    return fold(column.text) if column.kind == "word" else column.name


def _parameter(tokens: Sequence[Token]) -> str:
    """Return the name of the parameter that these tokens are, with or without a cast."""
    match tokens:
        case [token] | [token, Token(kind="cast"), _] if token.kind == "parameter":
            return token.text[1:]
    return ""


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return what stands between the outermost commas."""
    commas = {at for at, token in outermost(tokens) if token.text == ","}
    parts: list[list[Token]] = [[]]
    for at, token in enumerate(tokens):
        if at in commas:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
