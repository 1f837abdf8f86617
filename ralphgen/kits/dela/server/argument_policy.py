"""Decides which further arguments and variables a task may be given: none that make it another."""

from __future__ import annotations

import re

from .answers import bad_arguments, shown
from .runners import COMPOSE
from .task import PATTERN, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .allowlist import Rules
    from .task import Task

MOST = 1 << 16  # characters of all arguments, and of all variables
# How make takes a variable; `!=` would run a command, and a name with a dot first is make's own.
ASSIGNMENT = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]*)(?:::?:?|\+|\?)?=(.*)", re.DOTALL)
# They say which shell, and which make, run the recipes.
OF_MAKE = frozenset("SHELL MAKE MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES MAKE_COMMAND".split())
# They make another program of any program, or lead it to other settings.
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
# Runners that write variables into the text of a command, which a shell reads then. Make and just
# do so with further arguments too, which Task quotes.
PASTING = ("make", "just", "task", COMPOSE)
BEYOND_WORDS = re.compile(r"[^\w @%+=:,./^-]")  # what a shell splits commands at, quotes, expands
SEVERAL = ("mvn", "gradle")  # runners that take every further word for a further task
# Their options that lead to another project or to other settings, and those that only look so.
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
    """Raise `RefusedError` for a word that would start something that nobody has allowed.

    `others` are the tasks beside this one. For make, whose every option and every word is a way
    around the allowlist, only variables are let through. A bare word for Maven or Gradle must be a
    task that is allowed too, and for just it must not be one that is not. What make and just write
    into a recipe must be plain words for its shell. Otherwise, whoever allows a task allows it with
    any argument.
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
                f"the argument '{shown(word)}' contains a NUL character", "Remove the NUL character"
            )
        if task.runner == "make":
            check_pasted(task.runner, _check_of_make(word))
        if task.runner == "just":
            check_pasted(task.runner, word)
        if _leads_elsewhere(task.runner, word):
            raise bad_arguments(
                f"'{shown(word)}' would make {task.runner} use another project",
                "Remove the option",
            )
        bare = task.runner in SEVERAL and not word.startswith("-") and word not in allowed
        if bare or (task.runner == "just" and word in denied):
            raise bad_arguments(
                f"'{shown(word)}' would start another task, which is not allowlisted",
                "Write the value of an option as --option=value"
                if bare
                else "Ask a human to allow that task, or remove the word",
            )


def check_name(task: Task) -> None:
    """Raise `RefusedError` for a task by its pattern, and for one whose name is no plain word.

    What stands for a `*` is written into commands, and a name with `=` is a variable for Task.
    """
    if task.runner != "task" or PATTERN not in task.name:
        return
    if PATTERN in task.source_name:
        raise bad_arguments(f"'{shown(task.name)}' is a pattern", "Replace each * with a word")
    if "=" in task.source_name:
        raise bad_arguments(
            f"task would read '{shown(task.source_name)}' as a variable", "Use a name without '='"
        )
    for part in parts_of(task.name, task.source_name):
        check_pasted(task.runner, part)


def check_variables(task: Task, variables: Mapping[str, str]) -> None:
    """Raise `RefusedError` for a variable that makes another program of the one that is run.

    Or another command, where the runner writes it into one.
    """
    if sum(len(name) + len(value) for name, value in variables.items()) > MOST:
        raise bad_arguments(
            f"the environment variables have more than {MOST:,} characters",
            "Pass long text in a file",
        )
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise bad_arguments(
                f"invalid environment variable name '{shown(name)}'",
                "Use a name of letters, digits and underscores",
            )
        if "\0" in value:
            raise bad_arguments(
                f"the value of the environment variable '{shown(name)}' contains a NUL character",
                "Remove the NUL character",
            )
        if name.upper() in VARIABLES or name.upper().startswith(PREFIXES):
            raise bad_arguments(
                f"the environment variable '{shown(name)}' cannot be set for a task",
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
            f"'{shown(text)}' contains '{shown(found[0])}', which {runner} would write into a "
            "command",
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
            f"make would read '{shown(word)}' as an option, another target or a setting",
            "Pass variables as NAME=value",
        )
    name, value = assigned.groups()
    if name in OF_MAKE or name.startswith("-"):
        raise bad_arguments(
            f"the variable '{shown(name)}' of make cannot be set for a task", "Omit it"
        )
    return value
