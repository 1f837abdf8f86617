"""The project's own words to its agents: `.ralph/prompts/all.md` and `<recipe>.md`."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import MARK, collected, decoded, linkless_bytes, named_files

PROMPTS = ".ralph/prompts"
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
    return tuple(name.removesuffix(SUFFIX) for name in named_files(root, PROMPTS, SUFFIX))


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
            with collected(problems):
                words.append(_words(root, name))
    if problems:
        raise ProjectError.of(problems)
    return tuple(one for one in words if one.text.strip())


def _words(root: Path, name: str) -> Words:
    file = f"{PROMPTS}/{name}{SUFFIX}"
    shorter = "keep the essentials, and refer to a file for the rest"
    data = linkless_bytes(root, file, LONGEST, shorter)
    return Words(file, decoded(data, file).removeprefix(MARK))
