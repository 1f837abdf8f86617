"""What a task is, and the names of all tasks of a folder: no two have the same."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

PATTERN = "*"  # in the name of a task of Task: any word may stand in its place
FEW = 3  # letters of a runner, where one letter does not tell it apart


def is_word(name: str) -> bool:
    """Return whether a name can be given to a runner and shown on a line: it is no option."""
    return bool(name.strip()) and name.isprintable() and not name.startswith("-")


def one_line(value: object) -> str | None:
    """Return a text on one line, as a description; None where it is none, or blank."""
    return " ".join(value.split()) or None if isinstance(value, str) else None


def with_names(text: str | None, variables: re.Pattern[str]) -> str | None:
    """Return a description in which each variable stands as its name, <NAME>: no value is known.

    `variables` finds them; the group that has matched is the name, and `text`, where it is one of
    the groups, what stands for itself. What is computed in another way becomes <…>.
    """

    def name(found: re.Match[str]) -> str:
        if (plain := found.groupdict().get("text")) is not None:
            return plain
        return f"<{next(filter(None, found.groups()), '…')}>"

    return text and variables.sub(name, text)


class Task:
    """One task that a file of the project defines.

    `name` is what it is listed as, `source_name` what its runner knows it by. `runner` is the
    short name of the program that runs it, `argv` the command, word by word; a first word with a
    slash is a path below the folder in which the task was found. `path` is the file that defines
    it, absolute and without links. `before_arguments` are the words that stand between the command
    and further arguments, where there are any. `unique_name` is the name that no other task of the
    folder has; it is `name` until `name_tasks` has seen them all.
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

    @property
    def command(self) -> str:
        """The command as one would type it."""
        from shlex import join

        return join(self.argv)


def name_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks in their order, each once and with its `unique_name`.

    Two that one file defines and one command runs are the same task. A name that one task bears is
    its unique name. Where several bear it, each of them gets `<name>-<prefix>`, the prefix being
    the first letter of its runner, else the first three, else one more each, else the whole with a
    number behind: the first that makes a name which no task bears and none has got before. So the
    names depend on the tasks and their order alone, not on the machine.
    """
    named = _merged(tasks)
    bearers: dict[str, int] = {}
    for task in named:
        bearers[task.name] = bearers.get(task.name, 0) + 1
    taken = set(bearers)
    for task in named:
        task.unique_name = task.name
        if bearers[task.name] > 1:
            task.unique_name = next(name for name in _suffixed(task) if name not in taken)
            taken.add(task.unique_name)
    return named


def find_task(tasks: Sequence[Task], name: str) -> tuple[Task | None, list[str]]:
    """Return the task of a unique name, else the only one that `<name>-<prefix>` can mean.

    A prefix is any beginning of the runner's name, so that a client which knows a task under the
    name that it has elsewhere finds it here. Where there is none, the second value holds the unique
    names of the tasks that bear the name plainly: what the caller can have meant.
    """
    exact = next((task for task in tasks if task.unique_name == name), None)
    if exact is not None:
        return exact, []
    plain, dash, prefix = name.rpartition("-")
    meant = [task for task in tasks if task.name == plain and _letters(task).startswith(prefix)]
    if dash and prefix and len(meant) == 1:
        return meant[0], []
    return None, [task.unique_name for task in tasks if task.name == name]


def find_instance(tasks: Iterable[Task], name: str) -> tuple[Task | None, list[str]]:
    """Return the task that a name makes of the only pattern it fits, and else those patterns.

    It bears the name of the pattern, by which people allow it, and both its other names are the
    one that was given, by which they may deny it. What stands for `*` is not checked here.
    """
    fitting = [task for task in tasks if task.runner == "task" and parts_of(task.source_name, name)]
    if len(fitting) != 1:
        return None, [task.unique_name for task in fitting]
    pattern = fitting[0]
    made = Task(
        pattern.name,
        runner=pattern.runner,
        argv=(*pattern.argv[:-1], name),
        path=pattern.path,
        source_name=name,
        description=pattern.description,
        before_arguments=pattern.before_arguments,
    )
    made.unique_name = name
    return made, []


def parts_of(pattern: str, name: str) -> list[str]:
    """Return what stands in a name for each `*` of a pattern; nothing where it does not fit."""
    first, *others = pattern.split(PATTERN)
    if not name.startswith(first):
        return []
    parts, at = [], len(first)
    for number, text in enumerate(others, 1):
        is_last = number == len(others)
        end = name.rfind(text, at + 1) if is_last else name.find(text, at + 1)
        if end < 0 or (is_last and end + len(text) != len(name)):
            return []
        parts.append(name[at:end])
        at = end + len(text)
    return parts


def _merged(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks without those that repeat the file and the command of an earlier one."""
    first: dict[tuple[str, tuple[str, ...]], Task] = {}
    for task in tasks:
        kept = first.setdefault((task.path, task.argv or (task.name,)), task)
        if kept.description is None:
            kept.description = task.description
    return list(first.values())


def _suffixed(task: Task) -> Iterator[str]:
    """Yield the names that a task can get, the best first, without end."""
    letters = _letters(task)
    for size in (1, *range(FEW, len(letters)), len(letters)):
        yield f"{task.name}-{letters[:size]}"
    number = 1
    while True:
        yield f"{task.name}-{letters}{number}"
        number += 1


def _letters(task: Task) -> str:
    """Return the runner's name in small letters, without the space that "docker compose" has."""
    return "".join(letter for letter in task.runner.lower() if letter.isalpha())
