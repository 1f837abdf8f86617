"""`export` and `import` on the command line: their output and their exit codes."""

from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, query

pytestmark = pytest.mark.slow  # makes a project, runs commands

BEADS = Path(__file__).parents[1] / "exchange/peers/beads"
HOMES = ("--feature", "auth", "--discipline", "backend")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p")


def test_rows_go_to_a_file_or_to_standard_output_and_come_back(root: Path) -> None:
    ralphgen("export", "rows.jsonl", cwd=root)
    printed = ralphgen("export", cwd=root).stdout
    query(root, "DELETE FROM tasks WHERE id = 2")
    (root / ".ralph/last-export.jsonl").unlink()
    tried = ralphgen("import", "rows.jsonl", "--dry-run", cwd=root)
    done = ralphgen("import", "rows.jsonl", cwd=root)

    assert (root / "rows.jsonl").read_text(encoding="utf-8") == printed
    assert 'add task 2 "Show the form"\n' == tried.stdout == done.stdout
    assert "would change 1 row" in tried.stderr
    assert "nothing to change" in ralphgen("import", "rows.jsonl", cwd=root).stderr
    assert printed == ralphgen("export", cwd=root).stdout


def test_a_conflict_ends_with_one(root: Path) -> None:
    ralphgen("export", "rows.jsonl", cwd=root)
    file = root / "rows.jsonl"
    theirs = file.read_text(encoding="utf-8").replace('"Log in"', '"Sign in"')
    file.write_text(theirs, encoding="utf-8")
    query(root, "UPDATE tasks SET title = 'Enter' WHERE id = 1")
    result = ralphgen("import", "rows.jsonl", cwd=root)

    assert 1 == result.returncode
    assert 'task 1: "title" is "Enter" here and "Sign in" there' in result.stderr


def test_tasks_of_another_tool_are_listed(root: Path) -> None:
    result = ralphgen("import", str(BEADS), "--from", "beads", *HOMES, cwd=root)

    assert 0 == result.returncode, result.stderr
    assert 'add task 3 "Logging in"' == result.stdout.splitlines()[0]
    assert "changed 6 rows" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "beads"), "need a feature and a discipline"),
        (("--from", "beads", *HOMES, "--allow-removals"), "removes nothing"),
        (("--feature", "auth"), "have their feature and discipline already"),
        (("--from", "jira"), "jira"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_use(
    root: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = ralphgen("import", str(BEADS), *arguments, cwd=root)

    assert 2 == result.returncode
    assert said in result.stderr
