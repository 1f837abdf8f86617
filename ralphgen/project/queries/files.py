"""Reads the files of named queries, in the form that sqlc made known: comments, then SQL."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected, read_text
from ralphgen.project.queries.model import Parameter
from ralphgen.project.queries.tokens import (
    Token,
    read_tokens,
    refuse_further,
    without_comments,
)
from ralphgen.suggestion import suggestion

FOLDER = ".ralph/queries"
KINDS = ("one", "many", "exec")
TYPES = ("boolean", "integer", "number", "text")
RESERVED = ("limit", "cursor")  # arguments by which all queries with many rows are paged
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
    """What a line of a file says of a parameter, whose `type` is one of `TYPES`."""

    line: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class NamedSql:
    """One query as its file says it: `kind` is "one", "many" or "exec".

    `line` is that of its name in the file `where`, and `tokens` are those of its statement.
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
        """Where it is named, as `path:line`."""
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
    """Return what a line says of a parameter."""
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
    """Return the value that a parameter has where it is left out."""
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
    """Yield what is wrong with the names of parameters, in their lines and in the statement."""
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
