"""Two branches with a migration each, merged by git: regen puts the server of both together."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen, refused, run_sql, texts
from driving import create_project
from git_merges import DUE, MANIFEST, MCP, RISK, append, commit, conflict, git, nothing

from ralphgen.ledger.tables import definition

pytestmark = pytest.mark.slow

LEDGER = (definition(), "INSERT INTO ralphgen_ledger (created) VALUES ('2026-01-01')")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conflict(tmp_path_factory.mktemp("merge") / "p")


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    """A copy of a merge of two generated sides."""
    return shutil.copytree(model, tmp_path / "p")


def test_both_sides_are_put_together_and_check_is_green_in_ci(root: Path, tmp_path: Path) -> None:
    unmerged = git(root, "ls-files", "--unmerged")
    run_sql(root, RISK)
    done = ralphgen("regen", root, "--no-install")

    assert 0 == done.returncode, done.stderr
    assert f'accept it with "git add {MCP}"' in done.stderr
    assert unmerged == git(root, "ls-files", "--unmerged")  # adding is up to the user
    assert '"due"' in (root / MCP / "ralph/tables.py").read_text("utf-8")
    again = ralphgen("regen", root, "--no-install")
    assert (0, True) == (again.returncode, "is up to date" in again.stderr)
    git(root, "add", MCP)
    git(root, "commit", "-q", "-m", "merged")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(root), str(clone))
    assert 0 == ralphgen("check", clone).returncode
    straight = create_project(tmp_path / "straight", RISK, DUE)  # in another order
    theirs, found = texts(straight / MCP), texts(root / MCP)
    assert {**theirs, ".lock": b""} == {**found, ".lock": b""}


@pytest.mark.parametrize("operation", ["rebase", "cherry-pick", "merge --squash"])
def test_a_rebase_a_cherry_pick_and_a_squash_are_merges_too(tmp_path: Path, operation: str) -> None:
    root = conflict(tmp_path / "p", operation=operation)
    losing = f'{MCP} would lose the column "tasks.risk"'

    assert losing in refused("regen", root, "--no-install")
    assert losing in refused("regen", root, "--no-install", "--force")
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_a_stash_that_is_applied_is_a_merge_too(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (root / ".gitignore").write_text("/.ralph/db/\n", encoding="utf-8")
    git(root, "init", "-q", "-b", "main")
    commit(root, "main")
    run_sql(root, RISK)
    ralphgen("regen", root, "--no-install")
    git(root, "stash", "-q")
    run_sql(root, "ALTER TABLE tasks DROP COLUMN risk", DUE)
    ralphgen("regen", root, "--no-install")
    commit(root, "main")
    git(root, "stash", "pop", code=1)
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode


def test_a_side_with_an_unknown_commit_loses_nothing(root: Path) -> None:
    git(root, "update-ref", "-d", "MERGE_HEAD")

    losing = f'{MCP} would lose the column "tasks.risk"'
    assert losing in refused("regen", root, "--no-install", "--force")
    run_sql(root, RISK)
    assert '"manifest.json" cannot be read on side "theirs"' in refused("regen", root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode


def test_an_edit_of_squashed_changes_is_named(tmp_path: Path) -> None:
    edit = append(f"{MCP}/ralph/features.py", "# mine\n")
    root = conflict(tmp_path / "p", theirs=edit, operation="merge --squash")
    git(root, "add", "-A")
    run_sql(root, RISK)

    assert '"ralph/features.py" was edited by hand on side "theirs"' in refused("regen", root)


def test_a_database_without_one_sides_column_is_refused_as_for_removals(root: Path) -> None:
    before = texts(root)
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'{MCP} would lose the column "tasks.risk"\nhint: ')
    done = ralphgen("check", root, "--json")
    assert (1, True, ['the column "tasks.risk"']) == (
        done.returncode,
        json.loads(done.stdout)["merging"],
        json.loads(done.stdout)["database_lacks"],
    )
    assert before == texts(root)


def test_check_names_the_merge_and_what_mends_it(root: Path) -> None:
    run_sql(root, RISK)
    said = ralphgen("check", root).stderr

    assert f"{MCP} has unmerged files" in said
    assert f'run "ralphgen regen", then "git add {MCP}"' in said


@pytest.mark.parametrize(
    ("side", "path"),
    [
        ("theirs", "ralph/features.py"),  # git has merged it cleanly
        ("ours", "ralph/tasks.py"),
    ],
)
def test_an_edit_on_one_side_is_named_and_kept(tmp_path: Path, side: str, path: str) -> None:
    edit = append(f"{MCP}/{path}", "# mine\n")
    theirs, ours = (edit, nothing) if side == "theirs" else (nothing, edit)
    root = conflict(tmp_path / "p", theirs=theirs, ours=ours)
    run_sql(root, RISK)
    before = texts(root)
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'"{path}" was edited by hand on side "{side}"\nhint: ')
    assert before == texts(root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode
    assert "# mine" not in (root / MCP / path).read_text("utf-8")
    assert 0 == ralphgen("check", root).returncode


@pytest.mark.parametrize("path", ["ralph/features.py", "ralph/tasks.py"])
def test_an_edit_while_the_merge_waits_is_named_and_kept(root: Path, path: str) -> None:
    run_sql(root, RISK)
    (root / MCP / path).write_text("# mine\n", encoding="utf-8")
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'"{path}" was edited by hand since the merge began\nhint: ')
    assert "# mine\n" == (root / MCP / path).read_text("utf-8")


@pytest.mark.parametrize("side", ["--ours", "--theirs"])
def test_a_side_that_was_taken_whole_is_not_an_edit(root: Path, side: str) -> None:
    run_sql(root, RISK)
    git(root, "checkout", side, "--", MCP)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_marks_that_were_added_do_not_hide_the_merge(root: Path) -> None:
    run_sql(root, RISK)
    git(root, "add", "-A")

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_a_file_of_one_side_alone_is_removed_with_its_kit(tmp_path: Path) -> None:
    def switch_on(root: Path) -> None:
        (root / ".ralph/ralphgen.toml").write_text('kits = ["ralph", "rye"]\n', encoding="utf-8")
        ralphgen("regen", root, "--no-install")

    root = conflict(tmp_path / "p", theirs=switch_on)
    run_sql(root, RISK)
    assert (root / MCP / "rye/__init__.py").exists()
    (root / ".ralph/ralphgen.toml").unlink()
    assert 0 == ralphgen("regen", root, "--no-install").returncode

    assert not (root / MCP / "rye").exists()
    assert 0 == ralphgen("check", root).returncode


def test_a_file_that_neither_side_generated_is_in_the_way(root: Path) -> None:
    run_sql(root, RISK)
    (root / ".ralph/ralphgen.toml").write_text('kits = ["ralph", "rye"]\n', encoding="utf-8")
    own = root / MCP / "rye/__init__.py"
    own.parent.mkdir()
    own.write_text("mine = 1\n", encoding="utf-8")
    before = texts(root)

    assert '"rye/__init__.py" exists, but was not generated' in refused(
        "regen", root, "--no-install"
    )
    assert before == texts(root)


def test_less_proof_than_one_side_asks_for_is_refused(tmp_path: Path) -> None:
    def ask(root: Path) -> None:
        run_sql(root, *LEDGER)
        check = '[[done.checks]]\nname = "tests"\nrun = ["true"]\n'
        (root / ".ralph/ralphgen.toml").write_text(check, encoding="utf-8")
        assert 0 == ralphgen("regen", root, "--no-install").returncode

    root = conflict(tmp_path / "p", theirs=ask)
    run_sql(root, RISK, *LEDGER)
    (root / ".ralph/ralphgen.toml").unlink()

    assert 'check "tests" would be removed' in refused("regen", root, "--no-install")


def test_a_side_of_a_later_version_is_not_written_by_this_one(tmp_path: Path) -> None:
    def later(root: Path) -> None:
        facts = json.loads((root / MANIFEST).read_text("utf-8"))
        text = json.dumps({**facts, "ralphgen": "99.1.0"}, indent=2, sort_keys=True) + "\n"
        (root / MANIFEST).write_text(text, encoding="utf-8")

    root = conflict(tmp_path / "p", theirs=later)
    run_sql(root, RISK)

    for command in (("regen", "--no-install"), ("check",), ("init", "--no-install")):
        name, *options = command
        said = refused(name, root, *options, code=2)
        assert said.startswith(f"{MCP} was generated by ralphgen 99.1.0, ")
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode


def test_a_project_inside_of_a_repository_is_merged_too(tmp_path: Path) -> None:
    root = conflict(tmp_path / "mono", place="apps/shop é")
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode
