"""The project's own words to its agents: `.ralph/prompts/all.md` and `<recipe>.md`."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.recipes import named_files
from ralphgen.runtime.files import has_links, read_file, reason

FOLDER = ".ralph/prompts"
SUFFIX = ".md"
ALL = "all"  # the file that every session is told
LONGEST = 40_000  # bytes of a file


@dataclass(frozen=True, slots=True)
class Words:
    """What a person has written for agents in one file, whose path is relative to the project."""

    file: str
    text: str


def prompt_names(root: Path) -> tuple[str, ...]:
    """Return the recipes that the project has words for, sorted, `ALL` among them."""
    return tuple(name.removesuffix(SUFFIX) for name in named_files(root, FOLDER, SUFFIX))


def read_words(root: Path, names: Iterable[str]) -> tuple[Words, ...]:
    """Return the words for those of the names that there is a file for, in the order of the names.

    Raises `ProjectError` with every file that cannot be read, is a link or too long: words are
    never cut, and a link of a clone may lead to what no agent should read.
    """
    known = {*prompt_names(root)}
    words: list[Words] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        if name in known:
            try:
                words.append(_words(root, name))
            except ProjectError as error:
                problems.extend(error.problems)
    if problems:
        raise ProjectError.of(problems)
    return tuple(one for one in words if one.text.strip())


def _words(root: Path, name: str) -> Words:
    file = f"{FOLDER}/{name}{SUFFIX}"
    path = root / FOLDER / os.fsdecode(f"{name}{SUFFIX}".encode())
    if has_links(str(root.resolve() / path.relative_to(root))):
        text = f"{file}: is a link, expected a file of its own"
        raise ProjectError(text, "put a copy of the file in its place")
    try:
        data, size = read_file(str(path), LONGEST, links=False)
        if size > LONGEST:
            text = f"{file}: has {size:,} bytes, expected at most {LONGEST:,}"
            raise ProjectError(text, "keep what agents must know, and name a file for the rest")
        return Words(file, data.decode().removeprefix("\ufeff"))
    except OSError as error:
        text = f"{file}: cannot be read: {reason(error)}"
        raise ProjectError(text, "see who may read it") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ProjectError(f"{file}:{line}: is not UTF-8", "save it as UTF-8") from error
