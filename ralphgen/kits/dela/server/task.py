"""What a task is: a name, the file that defines it, and the command that runs it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def is_word(name: str) -> bool:
    """Whether a name can be given to a runner, and shown on a line: it reads as no option."""
    return bool(name.strip()) and name.isprintable() and not name.startswith("-")


def one_line(value: object) -> str | None:
    """A text on one line, as a description; None where it is none, or blank."""
    return " ".join(value.split()) or None if isinstance(value, str) else None


class Task:
    """One task that a file of the project defines.

    `name` is what it is listed as, `source_name` what its runner knows it by. `runner` is the
    short name of the program that runs it, `argv` the command, word by word; a first word with a
    slash is a path below the folder in which the task was found. `path` is the file that defines
    it, absolute and without links. `before_arguments` are the words that stand between the command
    and further arguments, where there are any. `unique_name` is the name that no other task of the
    folder has; it is `name` until `naming.name_tasks` has seen them all.
    """

    __slots__ = (
        "argv",
        "before_arguments",
        "description",
        "name",
        "path",
        "runner",
        "source_name",
        "unique_name",
    )

    def __init__(
        self,
        name: str,
        *,
        runner: str,
        argv: Sequence[str],
        path: str,
        source_name: str | None = None,
        description: str | None = None,
        before_arguments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.source_name = name if source_name is None else source_name
        self.runner = runner
        self.argv = tuple(argv)
        self.path = path
        self.description = description
        self.before_arguments = tuple(before_arguments)
        self.unique_name = name
