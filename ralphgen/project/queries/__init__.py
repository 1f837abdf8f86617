"""The project's named queries, `.ralph/queries/*.sql`: their files, declarations and rules."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.files import collected, read_text
from ralphgen.runtime.engine import fold

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: its type in JSON ("boolean", "integer", "number", "string"), and its default.

    The type "decimal" is a string with a number of any length. If `optional`, the argument may be
    omitted, and its value is then `default`.
    """

    name: str
    type: str
    description: str = ""
    optional: bool = False
    default: str | int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A named query that compiles, with its parameters, its result and its effects.

    `sql` is the statement as the engine expects it. `columns` are the columns of the result with
    their JSON types, which are empty if unknown. `reads` are the columns that it reads, by table or
    view, and `views` the definitions of those views on SQLite. `verb` is INSERT, UPDATE, DELETE or
    REPLACE (which may change existing rows) for a query that writes the table `writes` and sets its
    columns `sets`; else it is empty. `place` is the location of the query, for messages. On
    PostgreSQL, `names` are the columns that the query reads directly, not through a view. There
    `tied` maps each parameter to the column that has its value in every written row.
    """

    name: str
    kind: str
    description: str
    sql: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    reads: Mapping[str, Names]
    place: str
    verb: str = ""
    writes: str = ""
    sets: Names = ()
    views: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Names] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """The queries of a project, and facts about their tables as JSON for `project.json`.

    These facts suffice to prepare the queries again without a database.
    """

    queries: tuple[PreparedQuery, ...] = ()
    facts: Mapping[str, Any] | None = None


# The order matters: comments may hold quotes, strings may hold "--", and "::" starts no parameter.
_FORMS = {
    "comment": r"--[^\n]*|/\*.*?\*/",
    "text": r"'(?:[^']|'')*'",
    "name": r'"(?:[^"]|"")*"',
    "cast": r"::",
    "parameter": r":[A-Za-z_]\w*",
    "number": r"0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "word": r"[^\W\d]\w*",
    "space": r"\s+",
    "sign": r"->>|->|<=|>=|<>|!=|==|\|\||.",
}
# SQLite has other ways to quote a name, and takes more characters without quotes.
_SQLITE = {
    "bracketed": r"\[[^\]]*\]|`(?:[^`]|``)*`",
    "word": r"[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL: its kind, its text, and the line of its file on which it begins."""

    kind: str
    text: str
    line: int

    @property
    def name(self) -> str:
        """The identifier without its quotes; empty for other tokens."""
        if self.kind == "word":
            return self.text
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "bracketed":
            return self.text[1:-1].replace("``", "`") if self.text[0] == "`" else self.text[1:-1]
        return ""

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these words, given in upper case, without quotes."""
        return self.kind == "word" and self.text.upper() in words

    def is_named(self, name: str) -> bool:
        """Return whether the token is this identifier; the case of ASCII letters is ignored."""
        return self.name != "" and fold(self.name) == fold(name)


def read_tokens(text: str, where: str, line: int, *, sqlite: bool) -> tuple[Token, ...]:
    """Return the tokens of a text that begins at a line of the file `where`, including spaces.

    Raises `ProjectError` for unterminated quotes and comments, and for forms that would make the
    end of a statement ambiguous.
    """
    forms = {**_SQLITE, **_FORMS, **_SQLITE} if sqlite else _FORMS
    pattern = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in forms.items()), re.DOTALL)
    tokens: list[Token] = []
    for found in pattern.finditer(text):
        token = Token(found.lastgroup or "", found[0], line)
        problem = _problem(token, tokens[-1] if tokens else None, sqlite=sqlite)
        if problem:
            raise ProjectError(f"{where}:{line}: {problem}")
        tokens.append(token)
        line += token.text.count("\n")
    return tuple(tokens)


def _problem(token: Token, before: Token | None, *, sqlite: bool) -> str:
    """Return the problem of a token that follows `before`; empty if there is none."""
    problem = ""
    if token.kind == "sign" and token.text in (("'", '"', "`") if sqlite else ("'", '"')):
        problem = f"unterminated {token.text}"
    elif token.text == "*" and before is not None and before.text == "/":
        problem = "unterminated comment"
    elif token.kind == "comment" and "/*" in token.text[2:]:
        problem = "nested comment: remove the inner /*"
    elif token.kind == "text" and before is not None and before.is_word("E"):
        problem = "unsupported string E'…': use plain quotes"
    elif token.text == "$" and not sqlite:
        problem = 'unexpected "$": use single quotes for strings, and :name for parameters'
    elif token.kind == "sign" and token.text in ("?", "@", "$") and sqlite:
        problem = f'unsupported parameter "{token.text}": use :name'
    return problem


def without_comments(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens that mean something: without comments and spaces."""
    return tuple(token for token in tokens if token.kind not in ("comment", "space"))


def one_line(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens without comments, each run of spaces between them as one space."""
    pending = False
    begun = False
    for token in tokens:
        if token.kind in ("comment", "space"):
            pending = begun
            continue
        if pending:
            yield Token("space", " ", token.line)
        yield token
        pending, begun = False, True


def refuse_further(tokens: Sequence[Token], where: str) -> tuple[Token, ...]:
    """Return the tokens of the single statement, without the semicolon.

    Raises `ProjectError` if a second statement follows.
    """
    ends = [at for at, token in enumerate(tokens) if token.text == ";"]
    if not ends:
        return tuple(tokens)
    further = without_comments(tokens[ends[0] + 1 :])
    if further:
        place = f"{where}:{further[0].line}"
        raise ProjectError.of(
            [Problem(f"{place}: second statement, expected one", "give it its own name line")]
        )
    return tuple(tokens[: ends[0]])


FOLDER = ".ralph/queries"
KINDS = ("one", "many", "exec")
TYPES = ("boolean", "integer", "number", "text")
RESERVED = ("limit", "cursor")  # reserved for paging in every query with many rows
LONGEST = 100_000  # characters of a file
_HEADER = re.compile(r"--\s*name\s*:\s*(.*?)\s*", re.IGNORECASE)
_NAMED = re.compile(r"(\S+)\s+:(\w+)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PARAMETER = re.compile(
    r":(\w+)[ \t]+(\w+)(?:[ \t]*=[ \t]*('(?:[^']|'')*'|[^\s']\S*))?(?:[ \t]+(.*))?"
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"null": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Declared(Parameter):
    """A declaration of a parameter in a file; `type` is one of `TYPES`."""

    line: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class NamedSql:
    """A query as declared in its file: `kind` is "one", "many" or "exec".

    `line` is the line of its name in the file `where`, and `tokens` are the tokens of its
    statement.
    """

    name: str
    kind: str
    description: str
    parameters: tuple[Declared, ...]
    tokens: tuple[Token, ...]
    where: str
    line: int

    @property
    def place(self) -> str:
        """The location of its name, as `path:line`."""
        return f"{self.where}:{self.line}"

    @property
    def used(self) -> tuple[Token, ...]:
        """The first place of each parameter in the statement, in order."""
        found: dict[str, Token] = {}
        for token in self.tokens:
            if token.kind == "parameter":
                found.setdefault(token.text[1:], token)
        return tuple(found.values())


def read_queries(root: Path, *, sqlite: bool) -> tuple[NamedSql, ...]:
    """Return the named queries of the project in `root`, sorted by name.

    Raises `ProjectError` with every problem, each with its file and line.
    """
    folder = root / FOLDER
    if not os.path.lexists(folder):
        return ()
    problems: list[Problem] = []
    found: dict[str, NamedSql] = {}
    for path in sorted(folder.glob("[!.]*.sql")):
        shown = f"{FOLDER}/{path.name}"
        queries: list[NamedSql] = []
        with collected(problems):
            queries = _file(path, shown, sqlite=sqlite)
        for query in queries:
            if query.name in found:
                text = (
                    f'{query.place}: duplicate query "{query.name}", see {found[query.name].place}'
                )
                problems.append(Problem(text, "rename one of them"))
            found.setdefault(query.name, query)
    if problems:
        raise ProjectError.of(problems)
    return tuple(found[name] for name in sorted(found))


def _file(path: Path, where: str, *, sqlite: bool) -> list[NamedSql]:
    """Return the queries of one file."""
    text = read_text(path, where)
    lines = text.replace("\r\n", "\n").split("\n")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise ProjectError(f"{where}:{line}: contains the character U+0000", "remove it")
    if len(text) > LONGEST:
        raise ProjectError(f"{where}:1: has {len(text):,} characters, expected at most {LONGEST:,}")
    starts = [at for at, line in enumerate(lines) if _HEADER.fullmatch(line.strip())]
    for at, said in enumerate(lines[: starts[0] if starts else len(lines)]):
        if said.strip() and not said.strip().startswith("--"):
            what = f"{where}:{at + 1}: SQL before the first line that names a query"
            raise ProjectError(what, "start with: -- name: NAME :one | :many | :exec")
    problems: list[Problem] = []
    queries: list[NamedSql] = []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        with collected(problems):
            queries.append(_query(lines[start:end], where, start + 1, sqlite=sqlite))
    if problems:
        raise ProjectError.of(problems)
    return queries


def _query(lines: list[str], where: str, line: int, *, sqlite: bool) -> NamedSql:
    """Return a query whose first line is `line` of the file."""
    place = f"{where}:{line}"
    name, kind = _name(lines[0], place)
    described: list[str] = []
    declared: dict[str, Declared] = {}
    at = 1
    while at < len(lines) and (text := lines[at].strip()).startswith("--"):
        said = text[2:].strip()
        if re.match(r":\w", said):
            one = _declared(said, f"{where}:{line + at}", line + at)
            if one.name in declared:
                raise ProjectError(f'{where}:{line + at}: ":{one.name}" is declared twice')
            declared[one.name] = one
        elif said:
            described.append(said)
        at += 1
    if not described:
        text = f'{place}: query "{name}" has no description'
        raise ProjectError(text, "add a comment below its name, such as: -- Return the open tasks.")
    tokens = read_tokens("\n".join(lines[at:]), where, line + at, sqlite=sqlite)
    tokens = refuse_further(tokens, where)
    if not without_comments(tokens):
        raise ProjectError(f'{place}: query "{name}" has no statement')
    query = NamedSql(name, kind, " ".join(described), tuple(declared.values()), tokens, where, line)
    if problems := [*_parameter_problems(query)]:
        raise ProjectError.of(problems)
    return query


def _name(header: str, place: str) -> tuple[str, str]:
    """Return the name of a query and its kind."""
    said = _HEADER.fullmatch(header.strip())
    found = _NAMED.fullmatch(said[1]) if said else None
    if found is None:
        raise ProjectError(
            f"{place}: expected a name and a kind, as -- name: NAME :one | :many | :exec"
        )
    name, kind = found[1], found[2]
    if _NAME.fullmatch(name) is None:
        text = f'{place}: invalid query name "{name}"'
        raise ProjectError(text, "start with a letter, and use at most 64 letters, digits and _")
    if kind not in KINDS:
        text = f'{place}: query "{name}" has the kind ":{kind}", expected :one, :many or :exec'
        raise ProjectError(text, suggestion(kind, KINDS, "the kinds"))
    return name, kind


def _declared(said: str, place: str, line: int) -> Declared:
    """Return the declaration of a parameter in a line."""
    found = _PARAMETER.fullmatch(said)
    if found is None:
        text = (
            f"{place}: expected a parameter with its type, as -- :name type = default  description"
        )
        raise ProjectError(text, f"the types are {', '.join(TYPES)}")
    name, kind, default, description = found.groups()
    if kind not in TYPES:
        text = f'{place}: ":{name}" has the unknown type "{kind}"'
        raise ProjectError(text, suggestion(kind, TYPES, "the types"))
    words = " ".join((description or "").split())
    if default is None:
        return Declared(name, kind, words, line=line)
    value = _default(default, kind, name, place)
    return Declared(name, kind, words, optional=True, default=value, line=line)


def _default(text: str, kind: str, name: str, place: str) -> str | int | float | bool | None:
    """Return the default value of a parameter."""
    value: str | int | float | bool | None = text
    if text.startswith("'"):
        value = text[1:-1].replace("''", "'")
    elif text.lower() in _WORDS:
        value = _WORDS[text.lower()]
    elif _NUMBER.fullmatch(text):
        value = json.loads(text)
    if value is None:
        return None
    fits = {
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "text": isinstance(value, str) and text.startswith("'"),
    }
    if not fits[kind] or (isinstance(value, int) and abs(value) >= 2**63):
        expected = {"text": "a string in single quotes", "boolean": "true or false"}.get(kind, kind)
        what = f'{place}: the default of ":{name}" is {text}, expected {expected} or null'
        raise ProjectError(what)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ProjectError(f'{place}: the default of ":{name}" is out of range')
    return value


def _parameter_problems(query: NamedSql) -> Iterator[Problem]:
    """Yield the problems of parameter names, both in declarations and in the statement."""
    used = {token.text[1:]: token for token in query.used}
    for one in query.parameters:
        if one.name not in used:
            text = f'{query.where}:{one.line}: the statement has no parameter ":{one.name}"'
            yield Problem(text, suggestion(one.name, used, "its parameters") if used else "")
    for name, token in used.items():
        place = f"{query.where}:{token.line}"
        if not _ARGUMENT.fullmatch(name):
            yield Problem(f'{place}: invalid parameter name ":{name}"', "use letters, digits and _")
        elif query.kind == "many" and name in RESERVED:
            text = f'{place}: ":{name}" is reserved in :many queries'
            yield Problem(text, "rename it, or remove it: results are paginated already")


VERBS = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_SETS = ("UNION", "EXCEPT", "INTERSECT")


@dataclass(frozen=True, slots=True)
class ReturnedItem:
    """One item: `column` is (table or alias, name) for a plain column, and `is_all` is set for *.

    `is_named` is set if AS names it.
    """

    column: tuple[str, str] | None = None
    is_all: bool = False
    is_named: bool = False

    @property
    def is_given(self) -> bool:
        """Whether the item has a defined name: that of a column, or one from AS."""
        return self.is_named or self.column is not None


def outermost(tokens: Sequence[Token]) -> list[tuple[int, Token]]:
    """Return the tokens outside parentheses, each with its position."""
    depth, found = 0, []
    for at, token in enumerate(tokens):
        depth -= token.text == ")"
        if depth == 0:
            found.append((at, token))
        depth += token.text == "("
    return found


def verb_and_table(tokens: Sequence[Token]) -> tuple[str, str]:
    """Return the statement's verb and the table it changes; empty strings if it only reads.

    `tokens` have neither comments nor spaces.
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
    """Return the columns that an INSERT names, or None if it sets every column of the table.

    `tokens` have neither comments nor spaces.
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
    """Return the position of the parenthesis that closes the one at `place`."""
    depth = 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if not depth:
            return at
    return len(tokens)


def by_table(columns: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return columns by table, both sorted; an empty name is a table without a column."""
    found: dict[str, set[str]] = {}
    for table, column in columns:
        found.setdefault(table, set()).update(filter(None, (column,)))
    return {table: tuple(sorted(found[table])) for table in sorted(found)}


def replaces(tokens: Sequence[Token]) -> bool:
    """Return whether an INSERT may change or replace an existing row."""
    words = [token.text.upper() for token in tokens]
    return any(pair in (("OR", "REPLACE"), ("DO", "UPDATE")) for pair in pairwise(words))


def returned(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens after RETURNING; empty without that clause."""
    for at, token in outermost(tokens):
        if token.is_word("RETURNING"):
            return tuple(tokens[at + 1 :])
    return ()


def selected(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens of the select list of a simple SELECT; empty for every other statement."""
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


READING = ("SELECT", "WITH", "VALUES")
WRITING = ("INSERT", "UPDATE", "DELETE")
OWN = "ralphgen_"
SECRETS = (("disciplines", "mcp_servers"),)
"""Columns that may contain secrets."""
RESTRICTING = (("disciplines", "mcp_tool_overrides"), ("disciplines", "disabled_tools"))
"""Columns that remove tools from sessions: no session writes them."""
INTERNAL = (OWN, "sqlite_", "pragma_")
ROWIDS = ("rowid", "oid", "_rowid_")
UNTYPED = "has no type, and none can be inferred"
Hidden = Callable[[str, str], bool]


def is_secret(table: str, column: str, hidden: Hidden) -> bool:
    """Return whether queries may not know a column, by the names of its table and its own."""
    pair = (fold(table), fold(column))
    return pair in SECRETS or pair[0].startswith(OWN) or hidden(table, column)


def kind_problem(query: NamedSql, tokens: Sequence[Token]) -> Problem | None:
    """Return why a statement does not match its query's kind; `tokens` have no comments."""
    place = f"{query.where}:{tokens[0].line}"
    verb, _ = verb_and_table(tokens)
    if verb == "REPLACE":
        return Problem(f"{place}: REPLACE is not supported", "use INSERT OR REPLACE")
    if not tokens[0].is_word(*READING, *VERBS):
        text = f'{place}: starts with "{tokens[0].text}", expected SELECT'
        return Problem(f"{text}, or INSERT, UPDATE or DELETE for :exec")
    if query.kind == "exec" and verb not in WRITING:
        text = f'{place}: query "{query.name}" is :exec, expected INSERT, UPDATE or DELETE'
        return Problem(text, "use :one or :many for a query that reads")
    if verb and query.kind == "exec" and not returned(tokens):
        text = f'{place}: query "{query.name}" does not return the rows that it writes'
        return Problem(text, "end it with RETURNING and the columns of the primary key")
    if query.kind != "exec" and verb:
        text = f'{place}: query "{query.name}" is :{query.kind}, but its {verb} writes'
        return Problem(text, "use :exec for a query that writes")
    return None


def refused_names(query: NamedSql, tokens: Sequence[Token]) -> Iterator[Problem]:
    """Yield a problem for each name in SQLite that goes around the visible tables.

    `tokens` are without comments and spaces. A text in single quotes can be a name as well.
    """
    place = f"{query.where}:{tokens[0].line}"
    for before, token, behind in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        is_text = token.kind == "text"
        name = fold(token.text[1:-1] if is_text else token.name)
        qualifies = behind is not None and behind.text == "."
        if name in ("main", "temp") and qualifies:
            text = f'{place}: query "{query.name}" names the schema "{name}"'
            yield Problem(text, "use the table name alone")
        is_name = not is_text or qualifies or _may_name_table(before)
        if is_name and (name.startswith(INTERNAL) or name == "dbstat"):
            yield Problem(f'{place}: query "{query.name}" reads the internal table "{name}"')


def _may_name_table(before: Token | None) -> bool:
    """Return whether a text behind this token may stand for a table."""
    return before is not None and (before.text in ("(", ",") or before.is_word("FROM", "JOIN"))


def merged_secrets(tokens: Sequence[Token], hidden: Hidden) -> Iterator[str]:
    """Yield, as "table.column", each hidden column that a USING may join by.

    SQLite joins by the first table that has the column, so one next to the join counts too.
    `tokens` are without comments and spaces.
    """
    words = sorted({fold(token.name or token.text[1:-1]) for token in tokens})
    is_using = False
    for token in tokens:
        is_using = (is_using and token.text != ")") or token.is_word("USING")
        quoted = token.text[1:-1] if token.kind == "text" else ""  # a column name here
        name = fold(token.name or quoted) if is_using else ""
        yield from (f"{one}.{name}" for one in words if name and is_secret(one, name, hidden))


def lists_all(tokens: Sequence[Token]) -> bool:
    """Return whether a statement has a * that stands for columns."""
    return any(
        token.text == "*"
        and (before.text in (",", ".") or before.is_word("SELECT", "DISTINCT", "ALL", "RETURNING"))
        for before, token in pairwise(tokens)
    )


def refused_reads(
    query: NamedSql, reads: Iterable[tuple[str, str]], hidden: Hidden
) -> Iterator[Problem]:
    """Yield a problem for each column that the query reads and may not, also by a view."""
    place = f"{query.where}:{query.tokens[0].line if query.tokens else query.line}"
    for table, column in sorted(reads):
        if is_secret(table, column, hidden):
            what = f"{table}.{column}" if column else table
            yield Problem(f'{place}: query "{query.name}" reads "{what}", which is hidden')


def refused_writes(
    query: NamedSql, table: str, sets: Iterable[str], hidden: Hidden
) -> Iterator[Problem]:
    """Yield a problem for each thing that the query writes and may not."""
    place = f"{query.where}:{query.line}"
    if fold(table).startswith(OWN):
        yield Problem(f'{place}: query "{query.name}" writes "{table}", which belongs to ralphgen')
    for column in sorted(sets):
        if is_secret(table, column, hidden):
            text = f'{place}: query "{query.name}" sets "{table}.{column}", which is hidden'
            yield Problem(text)
        elif (fold(table), fold(column)) in RESTRICTING:
            text = f'{place}: query "{query.name}" sets "{table}.{column}", which is not allowed'
            yield Problem(text)


def returning_problem(
    query: NamedSql, back: Sequence[Token], key: Sequence[str], table: str
) -> Iterator[Problem]:
    """Yield a problem if the rows that a query writes are not returned with their primary key."""
    place = f"{query.where}:{query.line}"
    if not key:
        text = f'{place}: the table "{table}" has no primary key to identify its rows'
        yield Problem(text, "add a primary key")
        return
    items = items_of(back)
    if any(item.is_all for item in items):
        return
    there = {fold(item.column[1]) for item in items if item.column}
    missing = [name for name in key if fold(name) not in there]
    if missing:
        listed = ", ".join(key)
        text = f'{place}: query "{query.name}" does not return the primary key ("{missing[0]}")'
        yield Problem(text, f"end it with: RETURNING {listed}")


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
    """Return the column, or else the type, for each use of a parameter that determines its type.

    `tokens` are the statement without comments and spaces. A type is "integer" after LIMIT and
    OFFSET, and "text" after LIKE.
    """
    found: list[Column | str] = []
    for at, token in enumerate(tokens):
        if token.kind == "parameter" and token.text[1:] == name and _ends(tokens, at + 1):
            known = _at(tokens, at)
            if known:
                found.append(known)
    return found


def _at(tokens: Sequence[Token], at: int) -> Column | str | None:
    """Return the column or type that one use of a parameter implies, or None."""
    none = Token("", "", 0)
    third, second, before = [none, none, none, *tokens[:at]][-3:]
    behind = tokens[at + 1] if at + 1 < len(tokens) else none
    found: Column | str | None = None
    if before.is_word("LIMIT", "OFFSET"):
        found = "integer"
    elif before.is_word(*_TEXTS):
        found = "text"
    elif before.text in _SIGNS or before.is_word("IS", "BETWEEN"):
        found = _operand_before(tokens, at - 1)
    elif before.is_word("NOT") and second.is_word("IS"):
        found = _operand_before(tokens, at - 2)
    elif before.is_word("AND") and third.is_word("BETWEEN"):
        found = _operand_before(tokens, at - 3)
    elif before.text in ("(", ","):
        found = _list_column(tokens, at)
    if found is None and behind.text in _SIGNS and _begins(tokens, at - 1):
        found = _right(tokens, at + 2)
    return found


def _ends(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operand ends before a token, so that nothing is added to it."""
    if at >= len(tokens):
        return True
    token = tokens[at]
    return token.text in (*_SIGNS, ")", ",") or token.is_word(*_BEHIND, "IS", *_TEXTS)


def _operand_before(tokens: Sequence[Token], at: int) -> Column | None:
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


def _list_column(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column of a value in a list: after IN, or in the VALUES of an INSERT."""
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
        return _operand_before(tokens, opening - 1)
    if tokens[opening - 1].is_word("VALUES"):
        return _inserted_column(tokens, opening - 1, place)
    return None


def _inserted_column(tokens: Sequence[Token], values: int, place: int) -> Column | None:
    """Return the column of an INSERT for the value at a position of its VALUES."""
    closing = values - 1
    opening = closing
    while opening >= 0 and tokens[opening].text != "(":
        opening -= 1
    names = [token.name for token in tokens[opening + 1 : closing] if token.text != ","]
    if opening < 1 or tokens[closing].text != ")" or place >= len(names) or not names[place]:
        return None
    return (tokens[opening - 1].name, names[place])


_JOINS = ("FROM", "USING")  # their columns could be mistaken for columns of the written table
_MIXED = ("OR", "BETWEEN", "CASE")  # these make it unclear which conditions hold
_ENDS = ("RETURNING", "ON")


def parameter_columns(tokens: Sequence[Token], verb: str) -> dict[str, str]:
    """Return, by parameter, the column that has its value in every row that is written.

    `tokens` are the statement without comments and spaces. Only obvious cases count: `column =
    :name` in conditions joined by AND, and the values of an INSERT of a single row.
    """
    outer = outermost(tokens)
    begins = [at for at, token in outer if token.is_word(verb)]
    if not begins:
        return {}
    behind = [(at, token) for at, token in outer if at > begins[0]]
    return dict(_inserted_values(tokens, behind) if verb == "INSERT" else _compared(tokens, behind))


def _compared(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs in the conditions of an UPDATE or DELETE; `outer` begins after that word."""
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
    """Yield the parameter and the column if a condition has the form `column = :name`."""
    places = [at for at, token in enumerate(part) if token.text == "="]
    if len(places) != 1:
        return
    sides = (part[: places[0]], part[places[0] + 1 :])
    for one, other in (sides, sides[::-1]):
        name = _parameter(one)
        match other:
            case [column] | [_, Token(text="."), column] if name and column.name:
                yield name, _stored(column)


def _inserted_values(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield the parameters and columns of an INSERT of a single row."""
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
    """Return the tokens between the outermost commas."""
    commas = {at for at, token in outermost(tokens) if token.text == ","}
    parts: list[list[Token]] = [[]]
    for at, token in enumerate(tokens):
        if at in commas:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
