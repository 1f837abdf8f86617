"""Commands that hints, messages and examples name: each exists, with the options it is given."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syntax_trees import MODULES, ROOT, parsed

from ralphgen.cli.commands import load
from ralphgen.terminal.console import COMMANDS

TYPED = re.compile(r"(?<![\w./-])ralphgen ((?:(?! \| | > |[\"\n;`…]| -->).)+)")
OPTION = re.compile(r"-{1,2}[a-z][a-z-]*")
ROOT_OPTIONS = {"--help", "--version", "--install-completion", "--show-completion"}
PROSE = {"check", "import", "trust"}  # also words of sentences on what ralphgen does
HOLE = "X"  # of an f-string


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the literals and f-strings of a module, but no docstring."""
    skipped = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    } | {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in skipped:
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def named_commands() -> Iterator[tuple[Path, str]]:
    """Yield each command that a text of the sources names, from its first word."""
    for path in MODULES:
        for text in texts(parsed(path)):
            for found in TYPED.finditer(text):
                first = found[1].partition(" ")[0]
                quoted = text[: found.start()].endswith(('"', ": ", "hint: ")) or not found.start()
                if first in COMMANDS and (quoted or first not in PROSE):
                    yield path, found[1].rstrip(" ,.:)")


def wrong(words: list[str]) -> str:
    """Return the problem with a command line, empty if there is none."""
    command: Any = load(words[0])
    while hasattr(command, "commands") and len(words) > 1 and words[1][0].islower():
        if words[1] not in command.commands:
            return f'"{words[0]}" has no command "{words[1]}"'
        command, words = command.commands[words[1]], words[1:]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    unknown = {word.partition("=")[0] for word in words if OPTION.fullmatch(word.partition("=")[0])}
    return ", ".join(sorted(unknown - options - {"--help"}))


NAMED = sorted({(str(path.relative_to(ROOT)), command) for path, command in named_commands()})


@pytest.mark.parametrize(("file", "command"), NAMED)
def test_a_command_that_a_text_names_exists(file: str, command: str) -> None:
    try:
        words = shlex.split(command.partition(" -- ")[0])
    except ValueError:  # a quote that a sentence opens
        words = command.replace("'", "").split()
    assert "" == wrong(words), f"{file} names: ralphgen {command}"


def test_many_commands_are_named() -> None:
    assert 150 < len(NAMED)
