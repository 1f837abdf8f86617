"""The checks that a new project could have: proposed from its files, as comments."""

import tomllib
from pathlib import Path

import pytest
from proved_projects import write_files

from ralphgen.emit.scaffold import Proposal, proposal_text, propose_checks, proposed_checks

UNITTEST = Proposal("tests", ("python", "-m", "unittest", "discover", "-s", "tests"))
PYTEST = Proposal("tests", ("python", "-m", "pytest", "-q"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        ([("README.md", "x")], []),
        (
            [("package.json", '{"scripts": {"test": "jest", "lint": "eslint ."}}')],
            [Proposal("tests", ("npm", "run", "test")), Proposal("lint", ("npm", "run", "lint"))],
        ),
        (
            [("package.json", '{"scripts": {"test": "jest"}}'), ("pnpm-lock.yaml", "")],
            [Proposal("tests", ("pnpm", "run", "test"))],
        ),
        ([("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\""}}')], []),
        ([("package.json", "{"), ("pyproject.toml", "[")], []),
        ([("package.json", "[1]")], []),
        ([("pyproject.toml", "[tool.pytest.ini_options]\n")], [PYTEST]),
        ([("tests/test_a.py", "")], [PYTEST]),
        ([("pytest.ini", "")], [PYTEST]),
        ([("tests/test_a.py", "import unittest\n")], [UNITTEST]),
        (
            [("tests/test_a.py", "from unittest import TestCase\n"), ("tests/__init__.py", "")],
            [Proposal("tests", UNITTEST.run[:4])],
        ),
        ([("tests/test_a.py", "import unittest\n"), ("pytest.ini", "")], [PYTEST]),
        ([("tests/test_a.py", "import unittest, pytest\n")], [PYTEST]),
        (
            [("pyproject.toml", "[tool.ruff]\n[tool.pytest]\n")],
            [PYTEST, Proposal("lint", ("ruff", "check", "."))],
        ),
        ([("Makefile", "test: build\n\ttrue\n")], [Proposal("tests", ("make", "test"))]),
        ([("Makefile", "test := 1\ntests:\n")], []),
        ([("Cargo.toml", "")], [Proposal("tests", ("cargo", "test"))]),
        ([("go.mod", "")], [Proposal("tests", ("go", "test", "./..."))]),
        ([("test.sh", "")], [Proposal("tests", ("./test.sh",), protect="test.sh")]),
        ([("tests/test_a.py", ""), ("Makefile", "test:\n")], [PYTEST]),
    ],
)
def test_the_files_of_a_project_suggest_checks(
    tmp_path: Path, files: list[tuple[str, str]], expected: list[Proposal]
) -> None:
    write_files(tmp_path, files)

    assert expected == proposed_checks(tmp_path)


def test_proposals_are_comments_that_hold_a_valid_config() -> None:
    text = proposal_text([PYTEST, Proposal("e2e", ("./test.sh",), protect="test.sh")], is_on=False)
    marked = [line.removeprefix("# ").removeprefix("#") for line in text.splitlines()[3:]]
    assert {} == tomllib.loads(text)

    assert {
        "checks": [
            {"name": "tests", "run": ["python", "-m", "pytest", "-q"]},
            {"name": "e2e", "run": ["./test.sh"]},
        ],
        "protect": ["test.sh"],
    } == tomllib.loads("\n".join(marked))["done"]


def test_proposals_are_added_once(tmp_path: Path) -> None:
    write_files(tmp_path, [(".ralph/ralphgen.toml", 'kits = ["ralph"]'), ("go.mod", "")])

    assert propose_checks(tmp_path, no).startswith("found checks: tests; enable them")
    text = (tmp_path / ".ralph/ralphgen.toml").read_text(encoding="utf-8")
    assert text.startswith('kits = ["ralph"]\n\n# Checks that must pass')
    assert "" == propose_checks(tmp_path, no)


def test_proposals_are_enabled_by_a_yes(tmp_path: Path) -> None:
    write_files(tmp_path, [(".ralph/ralphgen.toml", 'kits = ["ralph"]'), ("go.mod", "")])
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    assert "enabled checks in .ralph/ralphgen.toml: tests" == propose_checks(tmp_path, yes)
    settings = tomllib.loads((tmp_path / ".ralph/ralphgen.toml").read_text(encoding="utf-8"))
    assert [{"name": "tests", "run": ["go", "test", "./..."]}] == settings["done"]["checks"]
    assert 'found checks: "tests" (go test ./...)' in asked[0]


def no(_question: str) -> bool:
    return False
