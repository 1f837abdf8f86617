"""What a new project could have proved before a task is done: proposals, from its files."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST = 1_000_000  # bytes of a file that is looked at
LOOKED_AT = 20  # files of tests
NPM_PLACEHOLDER = "no test specified"  # what "npm init" writes as the test of a package
TARGET = r"(?m)^{}\s*:(?!=)"
HEAD = """
# Checks that must pass before a task is done. Uncomment the ones you want, then run
# "ralphgen regen".
"""
HEAD_ON = """
# Checks that must pass before a task is done. Run "ralphgen regen" after a change.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A check that a project could have, and the file that defines what it runs."""

    name: str
    run: tuple[str, ...]
    protect: str = ""


def proposed_checks(root: Path) -> list[Proposal]:
    """Return the checks that the files of a project suggest, one for each name."""
    found: dict[str, Proposal] = {}
    for proposal in (*_of_node(root), *_of_python(root), *_of_make(root), *_of_others(root)):
        found.setdefault(proposal.name, proposal)
    return list(found.values())


def proposal_text(proposals: list[Proposal], *, is_on: bool) -> str:
    """Return the proposals as lines of the settings; each is a comment unless they are on."""
    lines: list[str] = []
    for proposal in proposals:
        lines += ["[[done.checks]]", f"name = {json.dumps(proposal.name)}"]
        lines += [f"run = {json.dumps(proposal.run)}", ""]
    protect = sorted({proposal.protect for proposal in proposals if proposal.protect})
    if protect:
        lines += ["[done]", f"protect = {json.dumps(protect)}", ""]
    mark = "" if is_on else "# "
    head = HEAD_ON if is_on else HEAD
    return head + "\n".join(f"{mark}{line}".rstrip() for line in lines[:-1]) + "\n"


def _of_node(root: Path) -> Iterator[Proposal]:
    try:
        scripts = json.loads(_text(root / "package.json"))["scripts"]
        runner = "npm"
        if (root / "pnpm-lock.yaml").is_file():
            runner = "pnpm"
        elif (root / "yarn.lock").is_file():
            runner = "yarn"
        for script, name in (("test", "tests"), ("lint", "lint")):
            if NPM_PLACEHOLDER not in str(scripts.get(script, NPM_PLACEHOLDER)):
                yield Proposal(name, (runner, "run", script))
    except (ValueError, LookupError, TypeError, AttributeError):
        return


def _of_python(root: Path) -> Iterator[Proposal]:
    try:
        tools = tomllib.loads(_text(root / "pyproject.toml")).get("tool", {})
    except ValueError:
        tools = {}
    configured = "pytest" in tools or (root / "pytest.ini").is_file()
    written = sorted((root / "tests").glob("test_*.py"))[:LOOKED_AT]
    if configured or written:
        is_pytest = configured or not _is_unittest(root, [_text(path) for path in written])
        place = () if (root / "tests/__init__.py").is_file() else ("-s", "tests")
        run = ("pytest", "-q") if is_pytest else ("unittest", "discover", *place)
        yield Proposal("tests", ("python", "-m", *run))
    if "ruff" in tools or (root / "ruff.toml").is_file():
        yield Proposal("lint", ("ruff", "check", "."))


def _is_unittest(root: Path, tests: Sequence[str]) -> bool:
    """Return whether tests are of unittest, and nothing in the project speaks of pytest."""
    names = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt", "requirements.txt")
    texts = [*tests, *(_text(root / name) for name in names)]
    is_free = not (root / "tests/conftest.py").is_file() and not any("pytest" in t for t in texts)
    return is_free and any("import unittest" in t or "from unittest " in t for t in tests)


def _of_make(root: Path) -> Iterator[Proposal]:
    text = _text(root / "Makefile")
    for target, name in (("test", "tests"), ("lint", "lint")):
        if re.search(TARGET.format(target), text):
            yield Proposal(name, ("make", target))


def _of_others(root: Path) -> Iterator[Proposal]:
    for file, run in (
        ("Cargo.toml", ("cargo", "test")),
        ("go.mod", ("go", "test", "./...")),
        ("mix.exs", ("mix", "test")),
    ):
        if (root / file).is_file():
            yield Proposal("tests", run)
    for script in ("test.sh", "scripts/test.sh"):
        if (root / script).is_file():
            yield Proposal("tests", (f"./{script}",), protect=script)


def _text(path: Path) -> str:
    """Return the text of a file; empty where there is none, or one that is too long to look at."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
