"""Makes the page of the reference on errors and exit codes from the code."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ralphgen import runtime
from ralphgen.agents.agent import CLOSED, AgentEnd, outcome_of
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.runtime import errors
from ralphgen.runtime.protocol.calls import UNFORESEEN_CODE
from ralphgen.spelling import markdown_cell

SOURCES = Path(str(runtime.__file__)).parents[1]
ERROR_CLASS = re.compile(r"^class \w+\((RalphgenError|ProjectError)\)", re.MULTILINE)
INTRODUCTION = """\
# Errors and exit codes

Each message names the fault and the expected value, and a line `hint:` names the next step. On this
page, `…` replaces names and values.

| from, to | form |
|---|---|
| a command, to the user | `error: …` on standard error, and an exit code |
| a tool, to an agent | an answer with `isError`, whose text names the next step |
| a server, to a client | an error of JSON-RPC, or over HTTP a status |
| a server that does not start, to a client | a line on standard error, and exit code 2 |
"""
PROTOCOL = {
    "PARSE_ERROR": "the line is no JSON",
    "INVALID_REQUEST": "the JSON is no message of the protocol, or is nested too deep",
    "METHOD_NOT_FOUND": "the server has no such method in this version of the protocol",
    "INVALID_PARAMS": "this session has no such tool, prompt, resource or cursor; or a prompt got"
    " wrong arguments",
    "INTERNAL_ERROR": "the server could not do it now: its log says why",
    "CONNECTION_CLOSED": "the connection ended before the answer",
}
ENDS = (
    (AgentEnd(), True, tuple(CLOSED), "the task is {}"),
    (AgentEnd(), False, ("",), "a session that closes no task has ended well"),
    (AgentEnd(claim_lost=True), True, ("",), "another session took the task meanwhile"),
    (AgentEnd(), True, ("",), "the agent ended, and the task is open"),
    (AgentEnd(is_error=True), True, ("",), "the agent failed"),
    (AgentEnd(rate_limited=True), True, ("",), "its model did not answer for now"),
    (AgentEnd(unavailable="no credit"), True, ("",), "its login, credit or plan allows no session"),
    (AgentEnd(out_of_time=True), True, ("",), "its time was up (`--timeout`)"),
    (AgentEnd(out_of_budget=True), True, ("",), "its turns or its money were used up"),
    (AgentEnd(by_person=2), True, ("",), "a person ended it by a signal: 128 and its number"),
)
RYE = ("CodedError", "NoKeyError")
Variable = tuple[int, str, str]
"""Where it is set, its name, and the text that it has then."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an exception of this name is given: each argument as text."""

    kind: str
    words: tuple[str, ...]


def errors_page() -> str:
    """Return the page as Markdown."""
    for path in sorted(SOURCES.rglob("*.py")):
        if ERROR_CLASS.search(path.read_text(encoding="utf-8")):
            import_module(".".join(path.relative_to(SOURCES.parent).with_suffix("").parts))
    kinds = {kind.__name__ for kind in _below(RalphgenError)}
    said = all_said({*kinds, *RYE, "Problem", "HttpError"})
    return "\n".join(
        [
            INTRODUCTION,
            "## Exit codes\n\nOf every command; 0 is success.\n",
            _rows(("exit code", "where"), _kinds()),
            "## What comes of `launch`\n\nThe word stands in `ralphgen session list` too.\n",
            _rows(("exit code", "word", "when"), _outcomes()),
            "## Errors of the protocol\n",
            _rows(("code", "when"), _protocol()),
            (
                "## Statuses over HTTP\n\n"
                "[Operate the server](../http-server.md#answers) lists the answers before these.\n"
            ),
            _rows(("status", "what it says"), _statuses(said)),
            "## Codes of rye\n\nIts refusals are JSON, with a code and facts.\n",
            _rows(("code", "such as"), _rye(said)),
            "## Messages of commands\n\nBy exit code, then by their first words.\n",
            _rows(("exit code", "message", "hint"), _messages(said)),
        ]
    )


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([*lines, ""])


def _kinds() -> Iterator[tuple[object, ...]]:
    """Yield each kind of error that commands end with, by its exit code, in its own words."""
    for kind in sorted(_below(RalphgenError), key=lambda kind: (kind.exit_code, kind.__name__)):
        words = str(kind.__doc__).partition(" (exit code")[0].rstrip(".")
        yield kind.exit_code, markdown_cell(words)


def _below(kind: type[RalphgenError]) -> Iterator[type[RalphgenError]]:
    for one in kind.__subclasses__():
        if not one.__name__.startswith("_"):
            yield one
        yield from _below(one)


def _outcomes() -> Iterator[tuple[object, ...]]:
    found = {
        (outcome.exit_code, outcome.word, when.format(status))
        for end, closes, statuses, when in ENDS
        for status in statuses
        for outcome in [outcome_of(end, status or None, closes=closes)]
    }
    yield from ((code, f"`{word}`", when) for code, word, when in sorted(found))


def _protocol() -> Iterator[tuple[object, ...]]:
    for name, value in vars(errors).items():
        if name.isupper() and type(value) is int:
            yield f"`{value}`", PROTOCOL[name]


def _statuses(said: list[Said]) -> Iterator[tuple[object, ...]]:
    found = {one.words for one in said if one.kind == "HttpError" and one.words[0].isdigit()}
    yield from ((words[0], markdown_cell(words[1])) for words in sorted(found) if words[1])


def _rye(said: list[Said]) -> Iterator[tuple[object, ...]]:
    values = vars(import_module("ralphgen.kits.rye.server.values"))
    such: dict[str, str] = {}
    for one in said:
        if one.kind in RYE and one.words[1].strip("… "):
            such.setdefault(one.words[0], markdown_cell(one.words[1]))
    codes = sorted(name for name, value in values.items() if name.isupper() and value == name)
    yield from ((f"`{code}`", such.get(code, "")) for code in codes)
    yield f"`{UNFORESEEN_CODE}`", "what the server did not foresee; its log says more"


def _messages(said: list[Said]) -> Iterator[tuple[object, ...]]:
    codes = {kind.__name__: kind.exit_code for kind in _below(RalphgenError)}
    codes["Problem"] = ProjectError.exit_code
    found = {
        (codes[one.kind], one.words[0], one.words[1] if len(one.words) > 1 else "")
        for one in said
        # else nothing of it could be searched for
        if one.kind in codes and len(one.words[0]) > 8 * one.words[0].count("…")
    }
    for code, text, hint in sorted(found, key=_by_words):
        yield code, markdown_cell(text), markdown_cell(hint)


def _by_words(row: tuple[int, str, str]) -> tuple[int, str, str]:
    code, text, hint = row
    return code, text.lstrip('"… ').lower(), hint


def all_said(kinds: set[str]) -> list[Said]:
    """Return what the code of ralphgen gives to exceptions of these names, by module.

    A text that does not stand there, or in a variable just before, is empty; a constant of another
    module that comes first is its name.
    """
    found: list[Said] = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(f"{kind}(" in text for kind in kinds):
            tree = ast.parse(text)
            for scope in ast.walk(tree):
                if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                    found += _said_in(scope, kinds, _assigned(tree.body))
    return found


def _said_in(scope: ast.AST, kinds: set[str], around: list[Variable]) -> Iterator[Said]:
    known = [*around, *_assigned(ast.walk(scope))]
    for node in ast.walk(scope):
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[first, *_]) if kind in kinds:
                before = {name: words for line, name, words in known if line < node.lineno}
                words = [_words(one, before) for one in node.args]
                if isinstance(first, ast.Name) and first.id.isupper():
                    words[0] = words[0] or first.id
                yield Said(kind, tuple(words))


def _assigned(nodes: Iterable[ast.AST]) -> list[Variable]:
    """Return line, name and text of each variable that is set there, by lines; "" for no text."""
    return sorted(
        (node.lineno, target.id, "" if isinstance(node.value, ast.Name) else _words(node.value, {}))
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def _words(node: ast.expr, known: dict[str, str]) -> str:
    """Return a text that is written in the code, with "…" for each value; else nothing."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        return "".join(map(str, parts))
    return ""
