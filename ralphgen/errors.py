"""Errors with hints and exit codes, hints for unknown names, and numbers with nouns."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ralphgen.runtime.errors import one_line

Say = Callable[[str], None]
"""Takes a line for people, such as progress."""

LONGEST = 2_000  # characters of a sentence: names may be as long as a file
# Control characters but tab and newline, what reverses the direction, and lone surrogates.
_TREACHEROUS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TOML_PLACE = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


def plain(text: str) -> str:
    """Return text as one harmless line for a terminal, cut if it is longer than `LONGEST`."""
    spelled = one_line(text[: LONGEST + 1])
    if len(spelled) <= LONGEST:
        return spelled
    return f"{spelled[:LONGEST]}… ({len(text):,} characters)"


def harmless(text: str) -> str:
    r"""Return lines with each character that could steer a terminal as `\xNN` or `\uNNNN`."""
    return _TREACHEROUS.sub(
        lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"),
        text.replace("\r\n", "\n"),
    )


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong.

    `text` is one sentence, lower-case, without a full stop, with names in quotes and, for text
    files, `path:line: ` in front; names come from anywhere, so that it is made `plain`. `hint` is a
    command or a step that helps. `output` are lines of another program, shown between both, and
    `field` is the field of a form of the board, such as `servers.0.command`.
    """

    text: str
    hint: str = ""
    output: str = ""
    field: str = ""

    def __post_init__(self) -> None:
        """Keep the text to one line that steers no terminal."""
        object.__setattr__(self, "text", plain(self.text))

    def __str__(self) -> str:
        """Return the sentence, the other program's lines, and a last line with the hint."""
        hint = f"hint: {self.hint}" if self.hint else ""
        return harmless("\n".join(part for part in (self.text, self.output, hint) if part))


class RalphgenError(Exception):
    """Base of every error shown to the user; carries `problems` and the process's `exit_code`."""

    exit_code = 1

    def __init__(self, text: str, hint: str = "", output: str = "") -> None:
        super().__init__(text)
        self.problems: tuple[Problem, ...] = (Problem(text, hint, output),)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> "RalphgenError":
        """Return one error for many problems, sorted and shown together."""
        ordered = tuple(sorted(set(problems), key=_order))
        error = cls(ordered[0].text, ordered[0].hint)
        error.problems = ordered
        return error

    def __str__(self) -> str:
        """Return every problem, one below the other."""
        return "\n".join(str(problem) for problem in self.problems)


def _order(problem: Problem) -> tuple[list[str | int], str]:
    """Return the key that sorts by text, but line 10 after line 9."""
    parts = re.split(r"([0-9]+)", problem.text)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)], problem.hint


class ProjectError(RalphgenError):
    """Something in the project has to be fixed first (exit code 1)."""


class ProgramError(ProjectError):
    """A requirement of every session fails, such as git, the agent or the disk (exit code 1)."""


class NotInProjectError(ProjectError):
    """A directory is not in a project."""


class MissingError(RalphgenError):
    """A task, feature, discipline or session with this name does not exist (exit code 1)."""


class UsageError(RalphgenError):
    """The command line is invalid, or requests something impossible (exit code 2)."""

    exit_code = 2


class UntrustedError(RalphgenError):
    """A project would run something that the user has not trusted on this machine."""

    exit_code = 2


class EditedError(ProjectError):
    """Generated files were edited by hand, so that writing would lose work."""


def invalid_toml(shown: str, text: str, error: ValueError) -> ProjectError:
    """Return the error for a text that is not TOML; `shown` is its path for messages."""
    message = str(error)
    place = _TOML_PLACE.match(message)
    what, line, column = place.groups() if place else (message, None, None)
    where = f"{shown}:{line or len(text.splitlines()) or 1}"
    problem = f"{where}: invalid TOML: {what}{f' (column {column})' if column else ''}"
    return ProjectError(problem, "fix the file by hand")


MOST = 5  # names in a hint, unless all are
SHORT = 50  # characters


def either(names: Iterable[str]) -> str:
    """Return at least one name as a choice: "a, b or c"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an "s" unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggestion(name: str, known: Iterable[str], listed: str, command: str = "") -> str:
    """Return the nearest known name as a question, else the known names after `listed`.

    `listed` is their noun, such as "the kits". Only the nearest of many names are listed, with the
    `command` that lists all.
    """
    from ralphgen.runtime.values import nearest

    names = list(known)
    near = nearest(name, names)
    if near:
        return f'did you mean "{one_line(near)}"?'
    article, _, noun = listed.partition(" ")
    if not names:
        return f"there are no {noun} yet"
    if len(names) == 1:
        return f"{article} only {noun.removesuffix('s')} is {one_line(names[0])}"
    every = one_line(", ".join(names))
    if len(names) <= MOST or len(every) <= SHORT:
        return f"{listed} are {every}"
    from difflib import SequenceMatcher

    close = sorted(names, key=lambda one: -SequenceMatcher(None, name, one).ratio())[:MOST]
    shown = one_line(", ".join(one for one in names if one in close))
    return f"{listed} include {shown}" + f'; "{command}" lists them' * bool(command)
