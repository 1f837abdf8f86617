"""Finds the custom targets that a CMakeLists.txt defines."""

from __future__ import annotations

import os
import re

from ..task import Task, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..folder import Folder

_COMMAND = "add_custom_target"
_TARGET = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")  # CMake's rule, but for options
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = {"n": " ", "r": " ", "t": " ", "\n": ""}
_TOKEN = re.compile(
    r"""
      \#\[(?P<level>=*)\[.*?(?:\](?P=level)\]|\Z)          # a bracket comment
    | \#[^\n]*                                             # a comment
    | \[(?P<depth>=*)\[(?P<verbatim>.*?)(?:\](?P=depth)\]|\Z)
    | "(?P<quoted>(?>[^"\\]|\\.)*+)(?:"|\\?\Z)
    | (?P<bare>[()]|(?:[^\s()#"\\]|\\.)++)
    """,
    re.DOTALL | re.VERBOSE,
)


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each custom target whose name is written out, with its COMMENT.

    Other targets, those of other files and those whose name is computed are not listed. Raises
    `UnreadableError`.
    """
    path = folder.first("CMakeLists.txt")
    if path is None:
        return
    seen: set[str] = set()
    for arguments in _calls(_tokens(folder.text(path))):
        name = arguments[0] if arguments else ""
        if not _TARGET.fullmatch(name) or name in seen:
            continue
        seen.add(name)
        yield Task(
            name,
            runner="cmake",
            argv=("cmake", "--build", "build", "--target", name),
            path=os.path.realpath(path),
            description=_comment(arguments),
        )


def _comment(arguments: list[str]) -> str | None:
    """Return the argument that follows the word COMMENT."""
    following = dict(zip(reversed(arguments[:-1]), reversed(arguments), strict=False))
    return one_line(following.get("COMMENT"))


def _calls(tokens: Iterable[tuple[str, bool]]) -> Iterator[list[str]]:
    """Yield the arguments of each call of the command; nested parentheses are arguments too."""
    depth = 0
    named = False
    arguments: list[str] | None = None
    for text, bare in tokens:
        sign = text if bare and text in {"(", ")"} else ""
        if sign == "(" and depth == 0:
            arguments = [] if named else None
        elif sign == ")" and depth == 1 and arguments is not None:
            yield arguments
            arguments = None
        elif arguments is not None:
            arguments.append(text)
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        named = text.lower() == _COMMAND


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words and parentheses of a file, and whether each stands without quotes."""
    for token in _TOKEN.finditer(text):
        verbatim, quoted, bare = token["verbatim"], token["quoted"], token["bare"]
        if verbatim is not None:
            yield verbatim, False
        elif quoted is not None:
            yield _ESCAPED.sub(lambda found: _SPACES.get(found[1], found[1]), quoted), False
        elif bare is not None:
            yield bare, True
