"""Adds entries to the file of an allowlist: all else in it stays as it is."""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.kits.dela.server.allowlist import Rule, Rules, read_rules
from ralphgen.output.files import put
from ralphgen.project.toml_edit import edited
from ralphgen.runtime.errors import one_line

BY_HAND = "fix it by hand: what cannot be understood is not written over"


@dataclass(frozen=True, slots=True)
class Change:
    """What would be written: `entries` hold only what is new; `after` is `before` where nothing is.

    `rules` are those of the file as it is.
    """

    rules: Rules
    entries: tuple[Rule, ...]
    before: str
    after: str

    def diff(self) -> list[str]:
        """Return the lines that go and come, each on one line whatever it holds."""
        before, after = self.before.splitlines(), self.after.splitlines()
        lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
        return [one_line(line) for line in lines if not line.startswith("@@")]


def plan_change(path: str, wanted: Iterable[Rule]) -> Change:
    """Return what has to be written into an allowlist so that it has these entries.

    Raises `ProjectError` where the file is not understood, or could not be kept as it is.
    """
    before, rules = _text(path), read_rules(path)
    shown = f'the allowlist "{one_line(path)}"'
    if rules.problem:
        raise ProjectError(f"{shown} {rules.problem}", BY_HAND)
    missing = [rest for rule in wanted if (rest := _missing(rule, rules.entries)) is not None]
    try:
        after = _with_entries(before, missing, rules.entries) if missing else before
    except ValueError as error:
        raise ProjectError(f"{shown} cannot be changed: {one_line(str(error))}", BY_HAND) from error
    return Change(rules, tuple(missing), before, after)


def write(change: Change) -> None:
    """Write what was planned: whole, and for nobody else to read where the file is new.

    Raises `ProjectError` where the file was changed since, or cannot be written.
    """
    path = change.rules.path
    if _text(path) != change.before:
        text = f'the allowlist "{one_line(path)}" was changed by somebody else'
        raise ProjectError(text, "run the command again")
    with _private():
        put(Path(path), change.after)


def _missing(wanted: Rule, there: Sequence[Rule]) -> Rule | None:
    """Return what of a wanted entry those that are there do not say already."""
    if not wanted.tasks:
        return None if any(_says(rule, wanted, "") for rule in there) else wanted
    names = [name for name in wanted.tasks if not any(_says(rule, wanted, name) for rule in there)]
    return Rule(0, wanted.path, wanted.scope, names) if names else None


def _says(rule: Rule, wanted: Rule, name: str) -> bool:
    """Return whether an entry says what another wants, of the task of a name or of all tasks."""
    if wanted.scope == "Deny":
        return rule.denies([name], wanted.real)
    if wanted.scope == "Directory":
        return rule.scope == "Directory" and rule.is_around(wanted.real)
    return rule.grants(name, wanted.real)


def _with_entries(text: str, wanted: Sequence[Rule], there: Sequence[Rule]) -> str:
    """Return the text with more entries; all else in it is as it was.

    Names go to the entry of the same path and scope, where there is one: that of a Deny lists some,
    since without any it would be on all tasks. Raises ValueError where something would be lost.
    """
    names: dict[int, list[str]] = {}
    new: list[dict[str, Any]] = []
    for rule in wanted:
        same = (one for one in there if (one.path, one.scope) == (rule.path, rule.scope))
        home = next(same, None) if rule.tasks else None
        if home is not None:
            names.setdefault(home.number - 1, [*home.tasks]).extend(rule.tasks)
        else:
            tasks = {"tasks": [*rule.tasks]} if rule.tasks else {}
            new.append({"path": rule.path, "scope": rule.scope, **tasks})
    count = len(tomllib.loads(text).get("entries", []))
    changes: list[tuple[tuple[str | int, ...], Any]] = [
        *((("entries", at, "tasks"), tasks) for at, tasks in names.items()),
        *((("entries", at), entry) for at, entry in enumerate(new, count)),
    ]
    return edited(text, changes)


def _text(path: str) -> str:
    """Return the text of an allowlist; empty where it cannot be read, as its rules then say."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError):
        return ""


@contextmanager
def _private() -> Iterator[None]:
    """Whatever is made inside is for its owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
