"""The checks of a task, and the user's override, from the shell."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import made_here, query
from proved_projects import TESTS, proved_project

from ralphgen.emit.trust import check_items
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return proved_project(tmp_path_factory.mktemp("checks") / "p", repository=False)


@pytest.fixture
def root(shared: Path, tmp_path: Path) -> Path:
    """A copy of the project, whose checks are trusted."""
    copy = made_here(shutil.copytree(shared, tmp_path / "p"))
    add_to_record(copy, [item.digest for item in check_items(read_settings(copy).done)])
    return copy


def test_a_task_with_passed_checks_is_proved_and_may_be_done(root: Path) -> None:
    done = ralphgen("task", "check", "1", cwd=root)
    assert (0, "") == (done.returncode, done.stderr)
    first, last = done.stdout.splitlines()
    assert first.startswith("tests passed in ")
    assert "task 1 can be closed while the files stay unchanged" == last

    assert 0 == ralphgen("task", "status", "1", "done", cwd=root).returncode


def test_what_fails_is_shown_with_the_end_of_its_output(root: Path) -> None:
    (root / "code.txt").write_text("x", encoding="utf-8")
    done = ralphgen("task", "check", "1", cwd=root)

    assert 1 == done.returncode
    assert done.stdout.startswith("tests failed in ")
    assert "    ValueError: invalid literal" in done.stdout
    assert done.stdout.endswith("cannot be closed yet: not every check passed\n")


def test_programs_get_the_answer_unchanged(root: Path) -> None:
    done = ralphgen("task", "check", "1", "--json", cwd=root)

    assert json.loads(done.stdout)["passed"]


def test_checks_of_a_clone_are_not_run_until_trusted(shared: Path, tmp_path: Path) -> None:
    clone = shutil.copytree(shared, tmp_path / "clone")
    for words in (("task", "check", "1"), ("call", "ralph:run_checks", "task=1")):
        done = ralphgen(*words, cwd=clone)

        assert 2 == done.returncode
        assert 'it would run:\n  check "tests" runs' in done.stderr
    assert [] == query(clone, "SELECT 1 FROM ralphgen_evidence")


def test_the_user_closes_a_task_without_proof_on_the_record(root: Path) -> None:
    refused = ralphgen("task", "status", "1", "done", cwd=root)
    done = ralphgen("task", "status", "1", "done", "--force", "--because", "Seen.", cwd=root)

    assert 1 == refused.returncode
    assert (
        'error: task 1 is not done: check "tests" has not passed on the current files\n'
        'hint: run "ralphgen task check 1"; to close it anyway: --force --because REASON\n'
    ) == refused.stderr
    assert (0, "") == (done.returncode, done.stderr)
    assert [("Seen.",)] == query(root, "SELECT tail FROM ralphgen_evidence")


def test_a_reason_needs_force_and_force_alone_proves_nothing(root: Path) -> None:
    for force in ([], ["--force"]):
        done = ralphgen("task", "status", "1", "done", *force, cwd=root)
        assert 1 == done.returncode
        assert "--force --because" in done.stderr
    done = ralphgen("task", "status", "1", "done", "--because", "Seen.", cwd=root)
    assert 2 == done.returncode
    assert '"--because" requires "--force"' in done.stderr

    refused = ralphgen("task", "status", "1", "done", "--force", cwd=root)
    assert 1 == refused.returncode
    assert '"tests" has not passed' in refused.stderr


def test_a_word_that_loosens_is_asked_for_by_regen(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text(TESTS.replace("tests", "test"), encoding="utf-8")
    refused = ralphgen("regen", "--no-install", cwd=root)
    done = ralphgen("regen", "--no-install", "--allow-removals", cwd=root)

    assert 1 == refused.returncode
    assert 'check "tests" would be removed; this can weaken' in refused.stderr
    assert 0 == done.returncode


def test_the_ledger_remains_as_long_as_checks_keep_their_evidence_in_it(root: Path) -> None:
    done = ralphgen("db", "ledger", "off", "--yes", cwd=root)

    assert 1 == done.returncode
    assert "store their evidence in the ledger" in done.stderr
    assert [(1,)] == query(root, "SELECT COUNT(*) FROM ralphgen_ledger")
