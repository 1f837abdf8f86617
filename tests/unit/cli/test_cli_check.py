"""`ralphgen check` and `regen`: the files on disk compared with newly generated ones."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from shutil import copytree

import pytest
from command_line import (
    RALPHGEN,
    initialized,
    open_folder,
    ralphgen,
    ran,
    refused,
    run_sql,
    snapshot,
    texts,
)
from lanes import shortened

from ralphgen import __version__

pytestmark = pytest.mark.slow

SERVER = ".ralph/mcp/server.py"
RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("check") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return copytree(project, tmp_path / "p")


def set_version(root: Path, version: str) -> None:
    """Mark the server as written by another version."""
    manifest = root / ".ralph/mcp/manifest.json"
    facts = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps({**facts, "ralphgen": version}), encoding="utf-8")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, encoding="utf-8")


def test_check_confirms_and_writes_nothing(root: Path) -> None:
    before = snapshot(root)
    done = ralphgen("check", root)

    assert (0, "", "the server is up to date\n") == (done.returncode, done.stdout, done.stderr)
    assert before == snapshot(root)


def test_a_changed_schema_is_a_diff_on_stdout_and_words_on_stderr(root: Path) -> None:
    run_sql(root, RISK)
    before = snapshot(root)
    done = ralphgen("check", root)

    assert 1 == done.returncode
    assert '+            "risk": {"type": "string", "enum": TASK_RISK},\n' in done.stdout
    assert (
        "(stale: manifest.json, project.json, ralph/answers.py, ralph/tables.py, ralph/tasks.py)"
        in done.stderr
    )
    assert 'hint: run "ralphgen regen" and commit the result' in done.stderr
    assert before == snapshot(root)


def test_the_verdict_names_five_files_of_a_kind(root: Path) -> None:
    settings = root / ".ralph/ralphgen.toml"
    settings.write_text('kits = ["ralph", "acm"]\n', encoding="utf-8")
    done = ralphgen("check", root)
    missing = json.loads(ralphgen("check", "--json", root).stdout)["missing"]

    first = done.stderr.splitlines()[0]
    assert f"missing: {', '.join(missing[:5])} and {len(missing) - 5} more)" in first


@pytest.mark.thorough
def test_regen_brings_what_check_and_dry_run_promise(root: Path) -> None:
    run_sql(root, RISK)
    before = snapshot(root)
    preview = ralphgen("regen", root, "--dry-run")

    assert (0, "") == (preview.returncode, preview.stderr)
    assert ralphgen("check", root).stdout == preview.stdout
    assert before == snapshot(root)
    assert (
        "regenerated .ralph/mcp: 5 files changed\n"
        == ralphgen("regen", root, "--no-install").stderr
    )
    assert 0 == ralphgen("check", root).returncode
    assert "" == ralphgen("regen", root, "--dry-run").stdout


def test_a_changed_check_list_is_one_line_outside_generated_files(root: Path) -> None:
    run_sql(root, RISK)
    ralphgen("regen", root, "--no-install")
    run_sql(
        root,
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, '(''low'', ''high'')', '(''low'', ''mid'', ''high'')') WHERE name = 'tasks'",
    )
    diff = ralphgen("regen", root, "--dry-run").stdout
    ours = diff.partition("--- a/ralph/")[2]

    assert ['+    "mid",'] == [line for line in ours.splitlines() if line[:1] in "+-"][1:]


@pytest.mark.thorough
def test_edits_are_refused_by_name_and_overwritten_by_force(root: Path) -> None:
    good = texts(root)
    append(root / SERVER, "# mine\n")
    append(root / ".ralph/mcp/policy.py", "# mine\n")
    before = snapshot(root)
    said = refused("regen", root, "--no-install")

    assert said.startswith(
        "policy.py was edited by hand; not overwritten\n"
        "server.py was edited by hand; not overwritten\nhint: "
    )
    assert "regen --force" in said
    assert before == snapshot(root)
    assert "regen --force" in ralphgen("check", root).stderr
    assert 1 == ralphgen("init", root, "--no-install").returncode
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode
    assert good == texts(root)


def test_a_module_that_no_one_generated_is_reported_and_left_alone(root: Path) -> None:
    own = root / ".ralph/mcp/own.py"
    own.write_text("mine = 1\n", encoding="utf-8")
    done = ralphgen("check", root)

    assert (1, "") == (done.returncode, done.stdout)
    assert "(unknown: own.py)\nhint: remove them, or move your own files" in done.stderr
    assert "left alone: own.py" in ralphgen("regen", root, "--no-install", "--force").stderr
    assert own.exists()


def test_the_report_for_programs_has_every_key(root: Path) -> None:
    run_sql(root, 'ALTER TABLE tasks ADD COLUMN "limit" TEXT')
    append(root / SERVER, "# mine\n")
    (root / ".ralph/mcp/policy.py").unlink()
    done = ralphgen("check", root, "--json")
    report = json.loads(done.stdout)

    assert 1 == done.returncode
    assert {
        "ok": False,
        "stale": ["manifest.json", "project.json"],
        "edited": ["server.py"],
        "missing": ["policy.py"],
        "leftover": [],
        "unknown": [],
    } == {key: report[key] for key in list(report)[:1] + list(report)[3:8]}
    assert report["ralphgen"] == report["written_by"]
    assert report["diff"] == ralphgen("check", root).stdout
    (warning,) = report["warnings"]
    assert 'the column "tasks.limit" is left out' in warning
    assert f"warning: {warning}\n" in done.stderr


def test_a_clone_without_the_database_can_be_checked_with_a_note(root: Path) -> None:
    (root / ".ralph/db/ralph.db").unlink()
    done = ralphgen("check", root)
    append(root / ".ralph/ralphgen.toml", '[schema]\nhide = ["tasks.hints"]\n')
    hidden = ralphgen("check", root)

    assert 0 == done.returncode
    assert done.stderr.startswith("warning: no database at .ralph/db/ralph.db")
    assert (1, True) == (hidden.returncode, '-            "hints": STRING,' in hidden.stdout)


@pytest.mark.parametrize(("version", "code"), [("0.0.9", 1), ("99.0", 2)])
def test_another_version_is_named_and_nothing_else_compared(
    root: Path, version: str, code: int
) -> None:
    set_version(root, version)
    append(root / SERVER, "# mine\n")
    done = ralphgen("check", root, "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    sentence = f".ralph/mcp was generated by ralphgen {version}, but this is {__version__}"

    assert code == done.returncode
    assert done.stderr.startswith(f"error: {sentence}\nhint: ")
    assert sentence == problem["text"]


def test_an_earlier_version_writes_nothing_without_force(root: Path) -> None:
    set_version(root, "99.0")
    before = snapshot(root)
    for command in ("regen", "init"):
        said = refused(command, root, "--no-install", code=2)
        assert said.startswith(".ralph/mcp was generated by ralphgen 99.0, but this is ")
    assert before == snapshot(root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode
    assert 0 == ralphgen("check", root).returncode


def test_a_version_that_the_config_does_not_want_writes_nothing(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    text = 'requires = ">=99"\nkey_of_99 = 1\n'
    config.write_text(text, encoding="utf-8")
    before = snapshot(root)
    for command in ("check", "regen", "init"):
        options = () if command == "check" else ("--no-install",)
        said = refused(command, root, *options, code=2)
        assert said.startswith('.ralph/ralphgen.toml: "requires" is ">=99", but this is ralphgen ')
    assert before == snapshot(root)
    config.write_text('requires = ">=99"\n', encoding="utf-8")
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode


def test_an_unreadable_manifest_means_that_all_is_edited_and_nothing_is_deleted(root: Path) -> None:
    good = texts(root)
    (root / ".ralph/mcp/manifest.json").write_text("<<<<<<< ours\n", encoding="utf-8")
    (root / SERVER).write_text("# theirs\n", encoding="utf-8")
    before = snapshot(root)
    said = refused("regen", root, "--no-install")

    assert '"server.py" differs from the generated file, and "manifest.json" cannot be read' in said
    assert before == snapshot(root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode
    assert good == texts(root)


def interrupt(root: Path) -> None:
    """Leave the project as a write does that was interrupted after its point of no return."""
    commit = root / ".ralph/mcp/.commit"
    commit.mkdir()
    for name in ("server.py", "manifest.json"):
        (root / ".ralph/mcp" / name).rename(commit / name)


@pytest.mark.parametrize("command", ["regen", "init"])
def test_commands_that_write_finish_an_interrupted_write(root: Path, command: str) -> None:
    good = texts(root)
    interrupt(root)
    ran(command, root, "--no-install")
    assert good == texts(root)


def test_check_reports_an_interrupted_write_and_leaves_it(root: Path) -> None:
    interrupt(root)
    before = snapshot(root)
    done, said = ralphgen("check", root), ralphgen("check", root, "--json")

    assert 1 == done.returncode == said.returncode
    assert "a write of .ralph/mcp was interrupted" in done.stderr
    assert 'hint: run "ralphgen regen"' in done.stderr
    assert json.loads(said.stdout)["interrupted"]
    assert before == snapshot(root)


@pytest.mark.thorough
@pytest.mark.parametrize("command", shortened(["tools", "inspect", "doctor"], "tools", "inspect"))
@pytest.mark.parametrize("whole", [True, False])
def test_commands_that_read_write_nothing(root: Path, command: str, whole: bool) -> None:
    """No byte, time or file next to the database changes, even after an interrupted write.

    A server that doctor starts opens the database as always: SQLite's own files come and go.
    """
    if not whole:
        interrupt(root)
    before = snapshot(root)
    done = ralphgen(command, cwd=root)

    after = snapshot(root)
    if command == "doctor":
        del before[".ralph/db"], after[".ralph/db"]

    assert "interrupted" in done.stdout or whole or command != "doctor"
    assert before == after


@pytest.mark.thorough
def test_a_checkout_that_may_only_be_read_can_be_checked(project: Path) -> None:
    with open_folder() as folder:
        root = copytree(project, folder / "p")
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = snapshot(root)
        done = ralphgen("check", root, without_rights=True)

        assert (0, "the server is up to date\n") == (done.returncode, done.stderr)
        assert before == snapshot(root)


def test_files_next_to_generated_ones_are_reported(root: Path) -> None:
    server = root / ".ralph/mcp"
    for path in ("json.pyc", "_json.so", "runtime/__pycache__/start.pyc", "json/__init__.py"):
        (server / path).parent.mkdir(exist_ok=True)
        (server / path).write_bytes(b"")
    (server / "empty").mkdir()
    (server / "linked").symlink_to(root)
    done = ralphgen("check", root)

    assert 1 == done.returncode
    named = "_json.so, json.pyc, json/, linked/, runtime/__pycache__/"
    assert f"(unknown: {named})" in done.stderr


@pytest.mark.thorough
def test_check_prints_the_verdict_first_and_a_long_diff_on_request(root: Path) -> None:
    run_sql(root, RISK)
    append(root / SERVER, "".join(f"# line {number}\n" for number in range(61)))
    short, whole, piped = (
        ralphgen_on_terminal(root, *options) for options in (("check",), ("check", "--diff"), ())
    )

    assert short.startswith("error: .ralph/mcp is out of date")
    assert "files: ralphgen check --diff" in short
    assert "\n--- " not in short
    assert "\n--- " in whole.partition("hint: ")[2]
    assert "--- " in piped


def ralphgen_on_terminal(root: Path, *words: str) -> str:
    """The output of a command on a terminal; without words, that of `check` in a pipe."""
    if not words:
        return ralphgen("check", root).stdout
    leader, follower = os.openpty()
    done = subprocess.Popen(
        [RALPHGEN, *words, root], stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    output = b""
    with suppress(OSError):  # Linux reports the end of a terminal as an error
        while part := os.read(leader, 65536):
            output += part
    os.close(leader)
    assert 1 == done.wait(60)
    return output.decode().replace("\r\n", "\n")
