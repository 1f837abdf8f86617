"""Drift as the board shows it: what `check` prints by file, regenerating, and doctor's findings."""

import json
import shutil
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, run_sql, snapshot, texts
from driving import quiet

from ralphgen.board.discipline_forms import regenerate
from ralphgen.board.project import Drifted, drift
from ralphgen.doctor import examine
from ralphgen.kits.project import Project

pytestmark = pytest.mark.slow

RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"
MCP = ".ralph/mcp"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its environment: the user's, created once on a machine."""
    root = initialized(tmp_path_factory.mktemp("drift") / "p")
    ran("regen", root)
    return root


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return shutil.copytree(project, tmp_path / "p")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, encoding="utf-8")


def kinds(found: Drifted) -> dict[str, str]:
    return {file.path: file.kind for file in found.files}


def disarrange(root: Path) -> None:
    """Let there be a file of every kind, and one of two."""
    run_sql(root, RISK)
    folder = root / MCP
    append(folder / "server.py", "# --- mine\n-- not a header\n+++ b/neither\n")
    (folder / "README.md").unlink()
    (folder / "ralph" / "own.py").write_text("MINE = 1\n", encoding="utf-8")
    for name in ("gone.py", "left.py"):
        (folder / "ralph" / name).write_text("OLD = 1", encoding="utf-8")
    manifest = folder / "manifest.json"
    facts = json.loads(manifest.read_text(encoding="utf-8"))
    facts["files"]["ralph/gone.py"] = digest_of("another")
    facts["files"]["ralph/left.py"] = digest_of("OLD = 1")
    manifest.write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.slow
def test_a_server_that_is_up_to_date_has_no_files(root: Path) -> None:
    before = snapshot(root)

    assert Drifted(ok=True, summary="the server is up to date") == drift(root)
    assert before == snapshot(root)


def test_every_file_has_its_kind_and_all_parts_are_what_check_prints(root: Path) -> None:
    disarrange(root)
    before = snapshot(root)
    found = drift(root)
    done = ralphgen("check", root)

    assert {
        "README.md": "missing",
        "manifest.json": "stale",
        "project.json": "stale",
        "ralph/answers.py": "stale",
        "ralph/gone.py": "edited",
        "ralph/left.py": "leftover",
        "ralph/own.py": "unknown",
        "ralph/tables.py": "stale",
        "ralph/tasks.py": "stale",
        "server.py": "edited",
    } == kinds(found)
    assert done.stdout == "".join(file.diff for file in found.files)
    assert ["ralph/own.py"] == [file.path for file in found.files if not file.diff]
    for file in found.files:
        assert not file.diff or file.path in "".join(file.diff.splitlines(keepends=True)[:2])
    assert (False, ()) == (found.ok, found.problems)
    assert f"error: {found.summary}\nhint: {found.hint}\n" in done.stderr
    assert before == snapshot(root)
    assert asdict(found) == json.loads(json.dumps(asdict(found)), object_hook=tupled)


def tupled(value: dict[str, object]) -> dict[str, object]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in value.items()}


def test_without_a_server_its_files_are_named_and_not_shown(root: Path) -> None:
    before = len(list((root / MCP).rglob("*.py")))
    shutil.rmtree(root / MCP)
    found = drift(root)

    assert before < len(found.files)
    assert {("missing", "")} == {(file.kind, file.diff) for file in found.files}
    assert f"there is no server yet: {len(found.files)} files would be written" == found.summary


def test_a_project_that_cannot_be_read_gives_its_problems_as_values(root: Path) -> None:
    config = root / ".ralph" / "ralphgen.toml"
    config.write_text("plum = 2\nbanana = 1\n", encoding="utf-8")
    found = drift(root)
    said = ralphgen("check", root).stderr

    assert (False, ()) == (found.ok, found.files)
    assert 2 == len(found.problems)
    assert all(f"{problem}\n" in said for problem in found.problems)


def test_warnings_are_told(root: Path) -> None:
    append(root / ".ralph" / "ralphgen.toml", '\n[disciplines.nobody]\ndisable = ["get_task"]\n')
    (warning,) = drift(root).warnings

    assert 'there is no discipline "nobody"' in warning
    assert not warning.startswith("warning")


def test_a_server_of_an_earlier_version_is_told_and_compared_with_nothing(root: Path) -> None:
    manifest = root / MCP / "manifest.json"
    facts = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**facts, "ralphgen": "0.0.1"}), encoding="utf-8")
    found = drift(root)

    assert (False, ()) == (found.ok, found.files)
    assert "generated by ralphgen 0.0.1" in f"{found.summary} {found.problems}"


def test_regenerating_brings_what_the_drift_promised(root: Path) -> None:
    run_sql(root, RISK)
    said: list[str] = []

    assert () == regenerate(root, said.append)
    assert [f"regenerated {MCP}: 5 files changed"] == said[:1]
    assert drift(root).ok
    assert () == regenerate(root, said.append)
    assert f"{MCP} is up to date" in said


def test_regenerating_refuses_hand_edits_as_the_command_does(root: Path) -> None:
    run_sql(root, RISK)
    append(root / MCP / "server.py", "# mine\n")
    append(root / MCP / "policy.py", "# mine\n")
    before = texts(root)
    said: list[str] = []
    problems = regenerate(root, said.append)

    assert [
        "policy.py was edited by hand; not overwritten",
        "server.py was edited by hand; not overwritten",
    ] == [problem.text for problem in problems]
    assert 'compare with "ralphgen check"' in problems[-1].hint
    assert [] == said
    assert before == texts(root)
    assert all(str(problem) in ralphgen("regen", root).stderr for problem in problems)


def test_regenerating_what_cannot_be_written_says_so(root: Path) -> None:
    (root / MCP / "server.py").unlink()
    (root / MCP / "server.py").symlink_to(root / "elsewhere.py")
    (problem,) = regenerate(root, quiet)

    assert "server.py" in problem.text
    assert not (root / "elsewhere.py").exists()
    assert (problem,) == drift(root).problems


def test_an_interrupted_write_is_told_and_left_as_it_is(root: Path) -> None:
    folder = root / MCP
    commit = folder / ".commit"
    commit.mkdir()
    for name in ("server.py", "manifest.json"):
        (folder / name).rename(commit / name)
    found = drift(root)

    assert commit.exists()
    assert "a write of .ralph/mcp was interrupted" == found.summary
    assert 'run "ralphgen regen"' == found.hint


@pytest.mark.thorough
def test_a_diagnosis_is_what_doctor_prints_line_by_line(root: Path) -> None:
    run_sql(root, RISK)
    found = list(examine(Project(root)))
    printed = ralphgen("doctor", root).stdout

    lines = [
        f"{'warn' if one.is_warning else 'error':<6}{one.subject:<12} {one.detail}\n"
        f"{'':<19}fix: {one.fix}\n"
        if one.fix
        else f"{'ok':<6}{one.subject:<12} {one.detail}\n"
        for one in found
    ]
    assert printed.startswith("".join(lines))
    faults = {one.subject for one in found if one.fix and not one.is_warning}
    assert {"files", "schema"} == faults


def test_a_diagnosis_comes_as_it_is_made(root: Path) -> None:
    """The first lines are there before a server was started."""
    found = examine(Project(root))

    assert "database" == next(found).subject
    run_sql(root, RISK)
    assert ["settings", "files"] == [next(found).subject, next(found).subject]


def test_a_diagnosis_of_an_unreadable_project_ends_with_its_problems(root: Path) -> None:
    (root / ".ralph" / "ralphgen.toml").write_text("kits = 7\n", encoding="utf-8")
    *_, last = examine(Project(root))

    assert "settings" == last.subject
    assert last.fix
