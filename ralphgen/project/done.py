"""What has to be proved before a task is done: `[done]` and `[[done.checks]]` of the config."""

from collections.abc import Mapping
from typing import Any

from ralphgen.errors import Problem
from ralphgen.project.config import Config
from ralphgen.project.database import Snapshot
from ralphgen.project.disciplines import discipline_rows
from ralphgen.project.model import Check, DoneRules, Schema, done_facts
from ralphgen.project.patterns import unsupported
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.values import nearest

WATCHED = (
    "**/__tests__/**",
    "**/spec/**",
    "**/test/**",
    "**/tests/**",
    "**/*.spec.*",
    "**/*.test.*",
    "**/*_test.*",
    "**/test_*.py",
    "**/conftest.py",
    "**/.gitignore",
    "**/Cargo.toml",
    "**/Makefile",
    "**/Taskfile.yml",
    "**/go.mod",
    "**/go.sum",
    "**/justfile",
    "**/package.json",
    "**/package-lock.json",
    "**/pnpm-lock.yaml",
    "**/pyproject.toml",
    "**/setup.cfg",
    "**/tox.ini",
    "**/*.lock",
)
"""What `watch` is where the config does not say: tests, and what defines a check's command."""
NOTHING = DoneRules((), (), ())


def done_rules(config: Config) -> DoneRules | None:
    """Return what the config asks of a task before it is done; None without a check."""
    done = config.done
    if not done.checks:
        return None
    checks = tuple(
        Check(one.name, tuple(one.run or ()), one.dela or "", one.timeout, tuple(one.disciplines))
        for one in done.checks
    )
    watch = WATCHED if done.watch is None else tuple(done.watch)
    return DoneRules(checks, tuple(done.protect), watch)


def done_problems(config: TomlFile[Config]) -> list[Problem]:
    """Return what is wrong with the checks, each with its line."""
    problems: list[Problem] = []
    names: set[str] = set()
    for at, check in enumerate(config.values.done.checks):
        where = f'{config.place("done", "checks", at)}: check "{check.name}"'
        if check.name in names:
            problems.append(Problem(f"{where} is defined twice", "give each check a unique name"))
        names.add(check.name)
        if (check.run is None) == (check.dela is None):
            found = 'neither "run" nor' if check.run is None else 'both "run" and'
            problems.append(
                Problem(
                    f'{where} has {found} "dela"',
                    'set either run = ["program", "argument"] or dela = "task"',
                )
            )
        if check.run is not None and not (check.run and check.run[0].strip()):
            problems.append(
                Problem(f'{where} has an empty "run"', 'set run = ["program", "argument"]')
            )
    return problems


def ledger_problem(config: TomlFile[Config], schema: Schema) -> list[Problem]:
    """Return that evidence has no place to be kept, where the ledger's tables are missing."""
    if not config.values.done.checks or schema.table(MARKER) is not None:
        return []
    where = config.place("done", "checks")
    text = f"{where}: checks need the ledger, which stores their evidence"
    return [Problem(text, 'run "ralphgen db ledger on"')]


def done_warnings(connection: Snapshot, config: TomlFile[Config]) -> list[str]:
    """Return warnings on disciplines that the database does not have, and on useless keys."""
    done = config.values.done
    if not done.checks and (done.protect or done.watch):
        where = config.place("done")
        return [f"{where}: [done] has no effect without [[done.checks]]"]
    names = [name for (name,) in discipline_rows(connection)]
    warnings: list[str] = []
    for at, check in enumerate(done.checks):
        for name in check.disciplines:
            if name not in names:
                near = nearest(name, names)
                hint = f'; did you mean "{near}"?' if near else ""
                where = config.place("done", "checks", at, "disciplines")
                text = f'{where}: check "{check.name}" names the unknown discipline "{name}"'
                warnings.append(f"{text}{hint}")
    return warnings


def loosened(before: Mapping[str, Any], after: DoneRules | None) -> list[str]:
    """Return, in words, what `before`, the facts of earlier rules, asked for and `after` does not.

    Facts that cannot be read asked for nothing.
    """
    return loosened_facts(before, done_facts(after or NOTHING))


def loosened_facts(before: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Return the same of two rules that are both told by their facts (see `loosened`)."""
    try:
        earlier = {check["name"]: check for check in before["checks"]}
        protected = [str(one).removeprefix("./") for one in before["protect"]]
    except (LookupError, TypeError):
        return []
    checks = {check["name"]: check for check in facts["checks"]}
    found: list[str] = []
    for name, old in earlier.items():
        new = checks.get(name)
        if new is None:
            found.append(f'check "{name}" would be removed')
            continue
        if any(old.get(key) != new.get(key) for key in ("run", "dela")):
            found.append(f'check "{name}" would change')
        if new.get("disciplines") and not {*old.get("disciplines", ["*"])} <= {*new["disciplines"]}:
            found.append(f'check "{name}" would apply to fewer disciplines')
    found += [
        f'"{one}" would no longer be protected'
        for one in protected
        if one not in facts["protect"] and unsupported(one) is None
    ]
    return found
