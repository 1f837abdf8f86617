"""What the generator says: sentences with a hint when it cannot go on, never a traceback."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Say = Callable[[str], None]
"""Takes a line for people, such as progress."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong.

    `text` is one sentence, lower-case, without a full stop, with names in quotes and, for text
    files, `path:line: ` in front. `hint` is a command or a step that helps.
    """

    text: str
    hint: str = ""

    def __str__(self) -> str:
        """Return the sentence, and a second line with the hint where there is one."""
        return f"{self.text}\nhint: {self.hint}" if self.hint else self.text


class RalphgenError(Exception):
    """Base of every error shown to the user; carries `problems` and the process's `exit_code`."""

    exit_code = 1

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.problems: tuple[Problem, ...] = (Problem(text, hint),)

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


class UsageError(RalphgenError):
    """The command line asks for what cannot be (exit code 2)."""

    exit_code = 2


class EditedError(ProjectError):
    """Generated files were edited by hand, so that writing would lose work."""
