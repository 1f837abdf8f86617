"""Reads the user's allowlist of tasks; an unclear file allows none."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import is_within

from .output import bad_arguments, client_text
from .runners import COMPOSE
from .task import MISSING, PATTERN, Folder, UnreadableError, parts_of, read_toml, stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .task import Task

PLACES = ("~/.config/dela/allowlist.toml", "~/.dela/allowlist.toml")
SCOPES = ("Once", "Task", "File", "Directory", "Deny")
NOTHING = "no task is allowed"


class Rule:
    """One entry of an allowlist: a rule for the tasks at a path.

    `number` is its position in the file, from 1; `scope` is one of `SCOPES`; `path` is absolute,
    and `real` is its target without links. `tasks` are the listed names, if any. Raises `OSError`
    if the path of a Deny cannot be resolved, and `ValueError` for an invalid path.
    """

    __slots__ = ("number", "path", "real", "scope", "tasks")

    def __init__(self, number: int, path: str, scope: str, tasks: Iterable[str] = ()) -> None:
        self.number = number
        self.path = path
        self.scope = scope
        self.tasks = tuple(tasks)
        self.follow()

    def follow(self) -> None:
        """Resolve the path again. Raises `OSError` if the path of a Deny cannot be resolved."""
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
        """Return whether a path without links is the target of the entry, or below it."""
        return is_within(real, self.real)


class Rules:
    """The rules of an allowlist at one moment.

    `path` is the file, or the one to create if it is `missing`. `problem` is the reason that the
    file cannot be used and no task is allowed; `ignored` holds a sentence about each entry without
    effect. `home` is a pair of directories without links: the session's worktree and the project. A
    rule for a path in the project also applies to the same path in the worktree.
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
        """Return whether a task may be started, by its plain name, unique name and file.

        A Deny overrides every other entry. It applies to either name of a task, or to every task of
        its file or directory. A unique name allows nothing, because another task may have it
        tomorrow.
        """
        return self.denial(name, unique_name, path) is None and self.grant(name, path) is not None

    def problems(self) -> list[tuple[str, str]]:
        """Return the problems of the file or its entries, each as its path and a sentence."""
        return [(self.path, why) for why in (self.problem, *self.ignored) if why]

    def denial(self, name: str, unique_name: str, path: str) -> Rule | None:
        """Return the first entry that forbids a task."""
        reals, names = self._resolved_paths(path), (name, unique_name)
        return next(
            (rule for rule in self.entries for real in reals if rule.denies(names, real)), None
        )

    def grant(self, name: str, path: str) -> Rule | None:
        """Return the first entry that allows a task, were it not forbidden."""
        reals = self._resolved_paths(path)
        return next(
            (rule for rule in self.entries for real in reals if rule.grants(name, real)), None
        )

    def _resolved_paths(self, path: str) -> list[str]:
        """Return the paths, without links, whose entries apply to this path."""
        real = os.path.realpath(path)
        if self.home is None or not is_within(real, self.home[0]):
            return [real]
        at, main = self.home
        return [real, os.path.realpath(os.path.join(main, os.path.relpath(real, at)))]


class Allowlist:
    """The user's allowlist, read again after each change.

    `projects` are directories without links. A file in one of them allows nothing, since a
    repository could include it. `home` has the meaning of `Rules.home`.
    """

    __slots__ = ("_home", "_path", "_projects", "_rules", "_stamp")

    def __init__(self, projects: Sequence[str] = (), home: tuple[str, str] | None = None) -> None:
        self._projects = projects
        self._home = home
        self._path = ""
        self._stamp = MISSING
        self._rules = Rules("")

    def current(self) -> Rules:
        """Return the current rules; a new, changed or preferred file counts immediately."""
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
                rule.follow()  # again, because a link may have a new target
            except (OSError, ValueError) as error:
                why = _unreadable_line(rule.number, rule.path, error)
                return Rules(path, problem=f"{why}: {NOTHING}")
        return self._rules


def lies_in(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path leads into one of these folders without links."""
    real = os.path.realpath(path)
    return any(is_within(real, folder) for folder in folders)


def allowlist_path() -> str:
    """Return the first existing file of `PLACES`, or the first place if none exists.

    A file that cannot be accessed counts as existing, so that its denials are not lost.
    """
    places = [os.path.expanduser(place) for place in PLACES]
    return next((place for place in places if _is_there(place)), places[0])


def read_rules(path: str) -> Rules:
    """Return the rules of a file; if any part is unclear, no task is allowed and a reason is given.

    Unknown keys and Once are ignored, and so are relative paths, with a sentence. But a Deny that
    cannot be resolved makes the whole file unclear: if ignored, it would allow the tasks it
    forbids.
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
    """Return the entries without changes; raises `UnreadableError` if they are not a list."""
    entries = values.get("entries", [])
    if isinstance(entries, list):
        return entries
    raise UnreadableError(path, '"entries" must be a list of tables')


def _rule(path: str, number: int, entry: Any, ignored: list[str]) -> Rule | None:
    """Return the rule of an entry, or None to ignore it; raises `UnreadableError`."""
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
        raise UnreadableError(path, _unreadable_line(number, place, error)) from error


def _unclear(entry: Any) -> str:
    """Return the problem with the shape of an entry, or ""."""
    if not isinstance(entry, dict):
        return "must be a table"
    place, scope, tasks = (entry.get(key) for key in ("path", "scope", "tasks"))
    if not isinstance(place, str) or "\0" in place:
        return '"path" is missing, or not a valid path'
    if scope not in SCOPES:
        return f'"scope" must be one of {", ".join(SCOPES)}, found "{scope}"'
    listed = tasks is None or (isinstance(tasks, list) and all(isinstance(t, str) for t in tasks))
    return "" if listed else '"tasks" must be a list of names'


def _unreadable_line(number: int, path: str, error: Exception) -> str:
    why = getattr(error, "strerror", None) or error
    return f'entry {number}: cannot resolve "{one_line(path)}": {why}'


def _is_there(path: str) -> bool:
    """Return whether a path exists; dangling links and inaccessible paths count as existing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


MOST = 1 << 16  # characters of all arguments, and of all variables
# make's syntax for a variable; `!=` would run a command, and make reserves names with a leading
# dot.
ASSIGNMENT = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]*)(?:::?:?|\+|\?)?=(.*)", re.DOTALL)
# Variables that set the shell, or the make, of the recipes.
OF_MAKE = frozenset("SHELL MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES MAKE_COMMAND".split())
# Variables that change the behavior of any program, or lead it to other settings.
VARIABLES = frozenset(
    (
        "PATH HOME SHELL ENV BASH_ENV ZDOTDIR IFS SHELLOPTS BASHOPTS MAKEFLAGS GNUMAKEFLAGS MFLAGS "
        "MAKEFILES NODE_OPTIONS NODE_PATH PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE "
        "PYTHONWARNINGS PYTHONBREAKPOINT VIRTUAL_ENV CONDA_PREFIX JAVA_HOME CLASSPATH "
        "_JAVA_OPTIONS JDK_JAVA_OPTIONS PERL5OPT PERL5LIB RUBYOPT RUBYLIB RUSTC RUSTC_WRAPPER "
        "RUSTFLAGS GOFLAGS GOENV GCONV_PATH XDG_CONFIG_HOME TASK_TEMP_DIR RALPHGEN_TASK"
    ).split()
)
PREFIXES = tuple(
    (
        "LD_ DYLD_ GIT_ BASH_FUNC_ NPM_CONFIG_ YARN_ PNPM_ BUN_ UV_ POETRY_ POE_ TURBO_ TASK_X_ "
        "JAVA_TOOL_ MAVEN_ MVN GRADLE_ ORG_GRADLE_ ACT_ COMPOSE_ DOCKER_ JUST_ CARGO_"
    ).split()
)
# Runners that insert variables into the text of a command for a shell. Make and just also insert
# further arguments, which Task quotes.
PASTING = ("make", "just", "task", COMPOSE)
BEYOND_WORDS = re.compile(r"[^\w @%+=:,./^-]")  # special characters of a shell
SEVERAL = ("mvn", "gradle")  # runners that treat every further word as another task
# Their options that lead to another project or to other settings, and harmless lookalikes.
ELSEWHERE = {
    "mvn": "-f --file -s --settings -gs --global-settings -t --toolchains".split(),
    "gradle": (
        "-p --project-dir -b --build-file -c --settings-file -I --init-script --include-build "
        "-g --gradle-user-home"
    ).split(),
    "act": "-W --workflows -C --directory --env-file --secret-file".split(),
}
HARMLESS = frozenset(
    "-ff -fae -fn --fail-fast --fail-at-end --fail-never --configure-on-demand".split()
)
FORCED = {"just": {"JUST_ONE": "true"}}
"""By runner, the variables that keep it from starting more than the one task."""


def check_further(task: Task, words: Sequence[str], others: Iterable[Task], rules: Rules) -> None:
    """Raise `RefusedError` for a word that would start a task without permission.

    `others` are the other tasks. For make, every option and every word could bypass the allowlist,
    so only variables pass. For Maven or Gradle, a bare word must name an allowed task; for just, it
    must not name a task that is not allowed. Words that make and just insert into a recipe must be
    plain words for its shell. Otherwise, allowing a task allows it with any argument.
    """
    if sum(map(len, words)) > MOST:
        raise bad_arguments(
            f"the arguments have more than {MOST:,} characters", "Pass long text in a file"
        )
    beside = [other for other in others if other.runner == task.runner]
    allowed = {
        other.source_name
        for other in beside
        if rules.allows(other.name, other.unique_name, other.path)
    }
    denied = {other.source_name for other in beside} - allowed - {task.source_name}
    for word in words:
        if "\0" in word:
            raise bad_arguments(
                f"the argument '{client_text(word)}' contains a NUL character",
                "Remove the NUL character",
            )
        if task.runner == "make":
            check_pasted(task.runner, _check_of_make(word))
        if task.runner == "just":
            check_pasted(task.runner, word)
        if _leads_elsewhere(task.runner, word):
            raise bad_arguments(
                f"'{client_text(word)}' would make {task.runner} use another project",
                "Remove the option",
            )
        bare = task.runner in SEVERAL and not word.startswith("-") and word not in allowed
        if bare or (task.runner == "just" and word in denied):
            raise bad_arguments(
                f"'{client_text(word)}' would start another task, which is not allowlisted",
                "Write the value of an option as --option=value"
                if bare
                else "Ask a human to allow that task, or remove the word",
            )


def check_name(task: Task) -> None:
    """Raise `RefusedError` for a pattern itself, and for a matching name that is not a plain word.

    The text for a `*` is inserted into commands, and Task reads a name with `=` as a variable.
    """
    if task.runner != "task" or PATTERN not in task.name:
        return
    if PATTERN in task.source_name:
        raise bad_arguments(
            f"'{client_text(task.name)}' is a pattern", "Replace each * with a word"
        )
    if "=" in task.source_name:
        raise bad_arguments(
            f"task would read '{client_text(task.source_name)}' as a variable",
            "Use a name without '='",
        )
    for part in parts_of(task.name, task.source_name):
        check_pasted(task.runner, part)


def check_variables(task: Task, variables: Mapping[str, str]) -> None:
    """Raise `RefusedError` for a variable that would change which program or command runs.

    Runners that insert variables into a command get plain words only.
    """
    if sum(len(name) + len(value) for name, value in variables.items()) > MOST:
        raise bad_arguments(
            f"the environment variables have more than {MOST:,} characters",
            "Pass long text in a file",
        )
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise bad_arguments(
                f"invalid environment variable name '{client_text(name)}'",
                "Use a name of letters, digits and underscores",
            )
        if "\0" in value:
            raise bad_arguments(
                f"the value of the environment variable '{client_text(name)}' "
                "contains a NUL character",
                "Remove the NUL character",
            )
        if name.upper() in VARIABLES or name.upper().startswith(PREFIXES):
            raise bad_arguments(
                f"the environment variable '{client_text(name)}' cannot be set for a task",
                "Omit it: the task runs with the server's value",
            )
        if task.runner == "make":
            _check_of_make(f"{name}={value}")
        if task.runner in PASTING:
            check_pasted(task.runner, value)


def check_pasted(runner: str, text: str) -> None:
    """Raise `RefusedError` for a text that a shell would read as more than plain words."""
    found = BEYOND_WORDS.search(text)
    if found is not None:
        raise bad_arguments(
            f"'{client_text(text)}' contains '{client_text(found[0])}', which {runner} would write "
            "into a command",
            "Use plain words of letters, digits and @%+=:,./^_-",
        )


def _leads_elsewhere(runner: str, word: str) -> bool:
    """Return whether a word is an option of a runner for another project, with its value or not."""
    if word in HARMLESS:
        return False
    return any(
        word == option
        or word.startswith(f"{option}=")
        or (not option.startswith("--") and not word.startswith("--") and word.startswith(option))
        for option in ELSEWHERE.get(runner, ())
    )


def _check_of_make(word: str) -> str:
    """Return the value that a word gives a variable of make; refuse any other word."""
    assigned = ASSIGNMENT.fullmatch(word)
    if assigned is None:
        raise bad_arguments(
            f"make would read '{client_text(word)}' as an option, another target or a setting",
            "Pass variables as NAME=value",
        )
    name, value = assigned.groups()
    if name in OF_MAKE or name.startswith("-"):
        raise bad_arguments(
            f"the variable '{client_text(name)}' of make cannot be set for a task", "Omit it"
        )
    return value
