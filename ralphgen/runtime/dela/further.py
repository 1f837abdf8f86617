"""Decides which further arguments and variables a task may be given: none that make it another."""

from __future__ import annotations

import re

from .refusals import bad_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .allowlist import Rules
    from .task import Task

# How make takes a variable; `!=` would run a command.
ASSIGNMENT = re.compile(r"([A-Za-z0-9_.-]+)(?:::?:?|\+|\?)?=(.*)", re.DOTALL)
# They say which shell and which make run the recipes.
OF_MAKE = frozenset(
    (
        *("SHELL", ".SHELLFLAGS", "MAKE", "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS", "MAKEFILES"),
        *("MAKE_COMMAND", ".RECIPEPREFIX"),
    )
)
# They make another program of any program.
VARIABLES = frozenset(
    (
        *("PATH", "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS", "MAKEFILES", "BASH_ENV", "ENV", "SHELL"),
        *("NODE_OPTIONS", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "IFS", "SHELLOPTS"),
    )
)
PREFIXES = (
    *(
        "LD_",
        "DYLD_",
        "GIT_",
        "BASH_FUNC_",
        "JAVA_TOOL_",
        "NPM_CONFIG_",
        "YARN_",
        "JUST_",
        "MAVEN_",
    ),
    *("GRADLE_", "COMPOSE_", "DOCKER_"),
)
SEVERAL = ("mvn", "gradle")  # runners that take every further word for a further task
FORCED = {"just": {"JUST_ONE": "true"}}
"""By runner, the variables that keep it from starting more than the one task."""


def check_further(task: Task, words: Sequence[str], others: Iterable[Task], rules: Rules) -> None:
    """Raise `RefusedError` for a word that would start something that nobody has allowed.

    `others` are the tasks beside this one. For make, whose every option and every word is a way
    around the allowlist, only variables are let through. A bare word for Maven or Gradle must be a
    task that is allowed too, and for just it must not be one that is not. Otherwise, whoever allows
    a task allows it with any argument.
    """
    for word in words:
        if "\0" in word:
            raise bad_arguments("an argument holds a NUL character")
        if task.runner == "make":
            _check_of_make(word)
    beside = [other for other in others if other.runner == task.runner]
    allowed = {
        other.source_name
        for other in beside
        if rules.allows(other.name, other.unique_name, other.path)
    }
    denied = {other.source_name for other in beside} - allowed - {task.source_name}
    for word in words:
        bare = task.runner in SEVERAL and not word.startswith("-") and word not in allowed
        if bare or (task.runner == "just" and word in denied):
            hint = "; write the value of an option as --option=value" if bare else ""
            raise bad_arguments(
                f"'{word}' would start another task, which is not allowlisted{hint}"
            )


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise `RefusedError` for a variable that makes another program of the one that is run."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_arguments(f"'{name}' cannot be the name of an environment variable")
        if name.upper() in VARIABLES or name.upper().startswith(PREFIXES):
            raise bad_arguments(f"the environment variable '{name}' cannot be set for a task")


def _check_of_make(word: str) -> None:
    assigned = ASSIGNMENT.fullmatch(word)
    if assigned is None:
        raise bad_arguments(
            f"make takes '{word}' for an option or another target: give variables as NAME=value"
        )
    name, value = assigned.groups()
    if name in OF_MAKE or name.startswith("-"):
        raise bad_arguments(f"the variable '{name}' of make cannot be set for a task")
    if "$" in value:
        raise bad_arguments(f"the value of '{name}' holds a $, which make would expand")
