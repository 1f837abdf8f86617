"""Build files and scripts that git brought need approval wherever checks run."""

from pathlib import Path

import pytest
from command_line import ralphgen
from lanes import shortened
from proved_projects import git
from trusting import add, commit_all, configure, pull

pytestmark = pytest.mark.slow

CHECK = '\n[[done.checks]]\nname = "t"\nrun = ["sh", "build.sh"]\n'
EVENT = '{"hook_event_name": "Stop", "session_id": "x", "cwd": "."}'
COMMANDS = [
    ("gate",),
    ("gate", "--hook"),
    ("task", "check", "1"),
    ("call", "ralph:run_checks", "task=1"),
    ("call", "ralph:run_checks", "--recipe", "task_execution", "--task", "1"),
]


@pytest.fixture
def built(pulled: Path) -> Path:
    """An approved clone with a task, whose check runs a script."""
    add(pulled, "INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'FF')")
    add(pulled, "INSERT INTO tasks (feature, discipline, title) VALUES ('f', 'testing', 'T')")
    configure(pulled, CHECK)
    (pulled / "build.sh").write_text("true\n", encoding="utf-8")
    assert 0 == ralphgen("regen", pulled, "--no-install").returncode
    commit_all(pulled)
    assert 0 == ralphgen("trust", "-C", pulled, "--yes").returncode
    git(pulled, "push", "-q", "origin", "main:base")
    git(pulled.parent / "theirs", "reset", "-q", "--hard", "base")
    return pulled


@pytest.mark.parametrize("command", shortened(COMMANDS, ("gate",)), ids=" ".join)
def test_a_pulled_script_runs_in_no_check_before_approval(
    built: Path, command: tuple[str, ...]
) -> None:
    assert 0 == ralphgen(*command, cwd=built, stdin=EVENT).returncode
    (built.parent / "theirs/build.sh").write_text("touch PWNED\n", encoding="utf-8")
    commit_all(built.parent / "theirs")
    pull(built)
    refused = ralphgen(*command, cwd=built, stdin=EVENT)

    assert 2 == refused.returncode or "--hook" in command
    assert "build.sh" in refused.stderr + refused.stdout
    assert not (built / "PWNED").exists()
    assert 0 == ralphgen("trust", "-C", built, "--yes").returncode
    ralphgen(*command, cwd=built, stdin=EVENT)
    assert (built / "PWNED").exists()


def test_the_users_edit_of_a_script_runs_without_a_question(built: Path) -> None:
    (built / "build.sh").write_text("touch OWN\n", encoding="utf-8")

    done = ralphgen("gate", cwd=built)
    assert (built / "OWN").exists(), done.stderr


def test_a_base_proves_files_that_nobody_has_approved(built: Path) -> None:
    git(built, "update-ref", "refs/heads/base", "HEAD")
    (built.parent / "theirs/build.sh").write_text("touch CI\n", encoding="utf-8")
    commit_all(built.parent / "theirs")
    pull(built)

    ralphgen("gate", "--base", "base", cwd=built)
    assert (built / "CI").exists()
