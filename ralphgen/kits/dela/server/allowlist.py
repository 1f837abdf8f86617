"""Reads the file in which a person allows tasks, and says which those are: in doubt none."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import is_within

from .folder import MISSING, Folder, UnreadableError, stamp
from .parsing import read_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

PLACES = ("~/.config/dela/allowlist.toml", "~/.dela/allowlist.toml")
SCOPES = ("Once", "Task", "File", "Directory", "Deny")
NOTHING = "no task is allowed"


class Rule:
    """One entry of an allowlist: what it says on the tasks at a path.

    `number` is its place in the file, from 1; `scope` is one of `SCOPES`; `path` is absolute, and
    `real` is where it leads. `tasks` are names, none where the entry lists none. Raises OSError for
    the path of a Deny that cannot be followed, and ValueError for one that no path can be.
    """

    __slots__ = ("number", "path", "real", "scope", "tasks")

    def __init__(self, number: int, path: str, scope: str, tasks: Iterable[str] = ()) -> None:
        self.number = number
        self.path = path
        self.scope = scope
        self.tasks = tuple(tasks)
        self.follow()

    def follow(self) -> None:
        """See where the path leads now; raises OSError where a Deny leads nobody knows where."""
        try:
            self.real = os.path.realpath(self.path, strict=self.scope == "Deny")
        except (FileNotFoundError, NotADirectoryError):
            self.real = os.path.realpath(self.path)

    def denies(self, names: Iterable[str], real: str) -> bool:
        """Return whether it forbids a task of these names in the file at a path without links."""
        if self.scope != "Deny" or not self.is_around(real):
            return False
        return not self.tasks or any(name in self.tasks for name in names)

    def grants(self, name: str, real: str) -> bool:
        """Return whether it allows the task of a plain name in the file at a path without links."""
        if self.scope == "Directory":
            return self.is_around(real)
        if self.scope == "File":
            return real == self.real
        return self.scope == "Task" and real == self.real and name in self.tasks

    def is_around(self, real: str) -> bool:
        """Return whether a path without links is where the entry leads, or below it."""
        return is_within(real, self.real)


class Rules:
    """What an allowlist says at one moment.

    `path` is the file, or the one to create where it is `missing`. `problem` says why nothing is
    allowed, where the file cannot be used; `ignored` holds a sentence on each entry without effect.
    `home` are two folders without links: what is said of the second, the project's, holds for the
    same place in the first, its folder in another work tree.
    """

    __slots__ = ("entries", "home", "ignored", "missing", "path", "problem")

    def __init__(
        self,
        path: str,
        entries: Sequence[Rule] = (),
        *,
        ignored: Sequence[str] = (),
        problem: str = "",
        missing: bool = False,
    ) -> None:
        self.path = path
        self.entries = tuple(entries)
        self.ignored = tuple(ignored)
        self.problem = problem
        self.missing = missing
        self.home: tuple[str, str] | None = None

    def allows(self, name: str, unique_name: str, path: str) -> bool:
        """Return whether a task may be started: its plain and its unique name, and its file.

        A Deny wins over all that allows it, and is on the task by either name, or on every task of
        its file or folder. A unique name allows nothing: another task may have it tomorrow.
        """
        return self.denial(name, unique_name, path) is None and self.grant(name, path) is not None

    def problems(self) -> list[tuple[str, str]]:
        """Return why the file, or entries of it, cannot be used: its path and a sentence each."""
        return [(self.path, why) for why in (self.problem, *self.ignored) if why]

    def denial(self, name: str, unique_name: str, path: str) -> Rule | None:
        """Return the first entry that forbids a task."""
        reals, names = self._meant(path), (name, unique_name)
        return next(
            (rule for rule in self.entries for real in reals if rule.denies(names, real)), None
        )

    def grant(self, name: str, path: str) -> Rule | None:
        """Return the first entry that allows a task, were it not forbidden."""
        reals = self._meant(path)
        return next(
            (rule for rule in self.entries for real in reals if rule.grants(name, real)), None
        )

    def _meant(self, path: str) -> list[str]:
        """Return the paths, without links, of which an entry counts for what is at this one."""
        real = os.path.realpath(path)
        if self.home is None or not is_within(real, self.home[0]):
            return [real]
        at, main = self.home
        return [real, os.path.realpath(os.path.join(main, os.path.relpath(real, at)))]


class Allowlist:
    """The user's allowlist as it is at each look: a change counts at once.

    `projects` are folders without links: a file in one of them allows nothing, since a repository
    could bring it. `home` is as that of `Rules`.
    """

    __slots__ = ("_home", "_path", "_projects", "_rules", "_stamp")

    def __init__(self, projects: Sequence[str] = (), home: tuple[str, str] | None = None) -> None:
        self._projects = projects
        self._home = home
        self._path = ""
        self._stamp = MISSING
        self._rules = Rules("")

    def current(self) -> Rules:
        """Return what the file says now: one that is new, changed or nearer counts at once."""
        path = allowlist_path()
        if lies_in(path, self._projects):
            return Rules(
                path, problem=f"is inside the project, which could bring its own: {NOTHING}"
            )
        state = stamp(path)
        if (path, state) != (self._path, self._stamp):
            self._rules = read_rules(path)
            self._rules.home = self._home
            self._path, self._stamp = path, state
        for rule in self._rules.entries:
            try:
                rule.follow()  # anew: a link may lead elsewhere than it did
            except (OSError, ValueError) as error:
                why = _lost(rule.number, rule.path, error)
                return Rules(path, problem=f"{why}: {NOTHING}")
        return self._rules


def lies_in(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path leads into one of these folders without links."""
    real = os.path.realpath(path)
    return any(is_within(real, folder) for folder in folders)


def allowlist_path() -> str:
    """Return the file that counts: the first that there is of `PLACES`.

    Where there is none, the first place. What may not be seen is there: its denials must not be
    lost.
    """
    places = [os.path.expanduser(place) for place in PLACES]
    return next((place for place in places if _is_there(place)), places[0])


def read_rules(path: str) -> Rules:
    """Return what a file says; where any of it is unclear, nothing is allowed, with the reason.

    Unknown keys and Once are ignored, and so are relative paths, with a sentence. But a Deny that
    cannot be followed makes the whole file unclear: ignored, it would allow what it forbids.
    """
    if not os.path.isabs(path):
        return Rules(path, problem=f"is not an absolute path: {NOTHING}")
    if not _is_there(path):
        return Rules(path, missing=True)
    ignored: list[str] = []
    try:
        entries = _entries(path, read_toml(Folder(os.path.dirname(path), os.sep), path))
        found = [_rule(path, number, entry, ignored) for number, entry in enumerate(entries, 1)]
    except UnreadableError as error:
        return Rules(path, problem=f"{one_line(error.why)}: {NOTHING}")
    return Rules(path, [rule for rule in found if rule is not None], ignored=ignored)


def _entries(path: str, values: dict[str, Any]) -> list[Any]:
    """Return the entries as they are written; raises `UnreadableError` where they are no list."""
    entries = values.get("entries", [])
    if isinstance(entries, list):
        return entries
    raise UnreadableError(path, '"entries" must be a list of tables')


def _rule(path: str, number: int, entry: Any, ignored: list[str]) -> Rule | None:
    """Return an entry's rule, None where it may be ignored; raises `UnreadableError` if unclear."""
    if why := _unclear(entry):
        raise UnreadableError(path, f"entry {number}: {why}")
    place, scope = os.path.expanduser(entry["path"]), entry["scope"]
    if not os.path.isabs(place):
        why = f'"path" must be an absolute path, found "{one_line(entry["path"])}"'
        if scope == "Deny":
            raise UnreadableError(path, f"entry {number}: {why}")
        ignored.append(f"entry {number} is ignored: {why}")
        return None
    try:
        return Rule(number, place, scope, entry.get("tasks", ()))
    except (OSError, ValueError) as error:
        raise UnreadableError(path, _lost(number, place, error)) from error


def _unclear(entry: Any) -> str:
    """Return what is wrong with the shape of an entry."""
    if not isinstance(entry, dict):
        return "must be a table"
    place, scope, tasks = (entry.get(key) for key in ("path", "scope", "tasks"))
    if not isinstance(place, str) or "\0" in place:
        return '"path" is missing, or not a valid path'
    if scope not in SCOPES:
        return f'"scope" must be one of {", ".join(SCOPES)}, found "{scope}"'
    listed = tasks is None or (isinstance(tasks, list) and all(isinstance(t, str) for t in tasks))
    return "" if listed else '"tasks" must be a list of names'


def _lost(number: int, path: str, error: Exception) -> str:
    why = getattr(error, "strerror", None) or error
    return f'entry {number}: cannot resolve "{one_line(path)}": {why}'


def _is_there(path: str) -> bool:
    """Return whether anything is there: a dangling link counts, and what may not be seen."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True
