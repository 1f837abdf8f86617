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
PREFIXES = ("LD_", "DYLD_", "GIT_", "BASH_FUNC_")
SEVERAL = ("just", "mvn", "gradle")  # runners that take a further word for a further task


def check_further(task: Task, words: Sequence[str], others: Iterable[Task], rules: Rules) -> None:
    """Raise `RefusedError` for a word that would start something that nobody has allowed.

    `others` are the tasks beside this one. For make, whose every option and every word is a way
    around the allowlist, only variables are let through; for other runners, whoever allows a task
    allows it with any argument that does not name another task.
    """
    for word in words:
        if "\0" in word:
            raise bad_arguments("an argument holds a NUL character")
        if task.runner == "make":
            _check_of_make(word)
    if task.runner in SEVERAL:
        denied = {
            other.source_name
            for other in others
            if other.runner == task.runner and other.source_name != task.source_name
            if not rules.allows(other.name, other.unique_name, other.path)
        }
        named = next((word for word in words if {word, word.rpartition(":")[2]} & denied), None)
        if named is not None:
            raise bad_arguments(f"'{named}' would start another task, which is not allowlisted")


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
