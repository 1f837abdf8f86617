"""Files of this repository that other systems read: the action, the hooks, the registry entry."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import RALPHGEN
from driving import create_project, query, quiet
from proved_projects import check, git, proved_project

from ralphgen import __version__
from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"
NO_COMMIT = "0" * 40


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of which git tracks only the server, like a runner's checkout."""
    root = create_project(tmp_path / "p")
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A Person")
    git(root, "config", "user.email", "person@example.org")
    git(root, "add", ".ralph/mcp")
    git(root, "commit", "--quiet", "-m", "a server")
    return root


def run(script: str, root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as a runner does, with our command on PATH."""
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=root,
        env={**os.environ, **variables, "PATH": f"{RALPHGEN.parent}:{os.environ['PATH']}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def act(root: Path, base: str, *, fail_on_gain: str = "false") -> tuple[str, Mapping[str, str]]:
    """Run the action's steps on a checkout; how its check ended, and the texts that it leaves."""
    folder = root.with_name("runner")
    folder.mkdir(exist_ok=True)
    output, summary = folder / "output", folder / "summary"
    output.write_text("", encoding="utf-8")
    summary.write_text("", encoding="utf-8")
    variables = {
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "PROJECT": ".",
        "BASE": base,
        "FAIL_ON_GAIN": fail_on_gain,
    }
    steps = {step["name"]: step for step in read("action.yml")["runs"]["steps"]}
    looked = run(steps["Look"]["run"], root, **variables)
    assert 0 == looked.returncode, looked.stderr
    checked = run(steps["Check"]["run"], root, **variables)
    said = dict(line.split("=", 1) for line in output.read_text("utf-8").splitlines())
    texts = {name: Path(path).read_text(encoding="utf-8") for name, path in said.items()}
    texts["summary"] = summary.read_text(encoding="utf-8")
    return f"{checked.returncode} {checked.stderr}", texts


@pytest.mark.thorough
def test_the_action_reports_the_rights_that_agents_gain(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    query(root, RISK)
    regenerate(root, force=False, say=quiet)
    ended, texts = act(root, base)

    assert ended.startswith("0 ")
    assert "`ralph:create_task` accepts `risk`" in texts["policy"]
    assert texts["policy"] == texts["summary"]
    assert "<title>" in texts["report"]


@pytest.mark.thorough
def test_the_action_fails_on_a_gain_if_configured(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    query(root, RISK)
    regenerate(root, force=False, say=quiet)

    assert act(root, base, fail_on_gain="true")[0].startswith("1 ")


@pytest.mark.thorough
def test_the_action_fails_on_drift_and_still_reports_the_changes(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    query(root, RISK)
    ended, texts = act(root, base)

    assert ended.startswith("1 ")
    assert 'hint: run "ralphgen regen"' in ended
    assert "No session can do more or less than before." in texts["policy"]


@pytest.mark.thorough
def test_the_action_needs_no_database_and_no_commit_before(root: Path) -> None:
    shutil.rmtree(root / ".ralph/db")
    ended, texts = act(root, NO_COMMIT)

    assert ended.startswith("0 ")
    assert {"summary"} <= texts.keys() <= {"summary", "report"}


@pytest.mark.thorough
def test_the_action_fetches_the_commit_that_a_shallow_checkout_lacks(
    root: Path, tmp_path: Path
) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    query(root, RISK)
    regenerate(root, force=False, say=quiet)
    git(root, "commit", "--quiet", "-am", "a column")
    git(root, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(root, "clone", "--quiet", "--depth=1", root.as_uri(), str(tmp_path / "shallow"))
    ended, texts = act(tmp_path / "shallow", base)

    assert ended.startswith("0 ")
    assert "`ralph:create_task` accepts `risk`" in texts["policy"]


@pytest.mark.thorough
def test_the_action_refuses_a_word_that_would_look_for_no_gain(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()

    assert act(root, base, fail_on_gain="yes")[0].startswith("2 ")
    assert act(root, base, fail_on_gain="")[0].startswith("2 ")


def prove(root: Path, base: str, *, event: str = "pull_request") -> tuple[int, str, str]:
    """Run the step of the gate; its exit code, the job summary and the path of the receipt."""
    folder = root.with_name("runner")
    folder.mkdir()
    output, summary = folder / "output", folder / "summary"
    output.touch()
    summary.touch()
    (step,) = [one for one in read("action.yml")["runs"]["steps"] if one["name"] == "Gate"]
    variables = {
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_EVENT_NAME": event,
        "PROJECT": ".",
        "BASE": base,
    }
    done = run(step["run"], root, **variables)
    texts = (summary.read_text("utf-8") + done.stderr, output.read_text("utf-8").strip())
    return done.returncode, *texts


def checkout(folder: Path) -> Path:
    """A shallow checkout of a branch that weakens its check, without approvals or a database."""
    root = proved_project(folder / "origin", check("tests", "test", "-e", "good"))
    (root / "good").touch()
    git(root, "rm", "--quiet", "-r", "--cached", ".ralph/db")
    (root / ".ralph/.gitignore").write_text("/db/\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "base")
    git(root, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(root, "rm", "--quiet", "good")
    (root / ".ralph/ralphgen.toml").write_text(check("tests", "true"), encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", "weaken the check")
    git(folder, "clone", "--quiet", "--depth=1", root.as_uri(), str(folder / "checkout"))
    return folder / "checkout"


@pytest.mark.thorough
def test_the_gate_of_the_action_proves_by_the_checks_of_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = checkout(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    base = git(tmp_path / "origin", "rev-parse", "HEAD~1").strip()
    code, summary, receipt = prove(root, base)

    assert 1 == code
    assert 'not proved: the check "tests" ended with exit code 1' in summary
    assert "changed checks, not run: tests\n" in summary
    assert 'check "tests" runs test -e good' in summary
    assert "runs true" not in summary
    statement = json.loads(Path(receipt.removeprefix("receipt=")).read_text(encoding="utf-8"))
    assert "FAILED" == statement["predicate"]["result"]


@pytest.mark.thorough
def test_the_gate_of_the_action_passes_without_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    code, summary, _ = prove(checkout(tmp_path), NO_COMMIT)

    assert (0, True) == (code, "\nproved\n" in summary)


def test_the_gate_of_the_action_refuses_events_with_secrets(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    code, _, receipt = prove(tmp_path / "p", NO_COMMIT, event="pull_request_target")

    assert (2, "") == (code, receipt)


def test_no_input_of_the_action_is_pasted_into_a_script() -> None:
    """A pull request could inject code there."""
    assert not [one for one in read("action.yml")["runs"]["steps"] if "${{" in one.get("run", "")]


@pytest.mark.thorough
def test_the_template_of_gitlab_does_the_same(root: Path) -> None:
    base = git(root, "rev-parse", "HEAD").strip()
    query(root, RISK)
    regenerate(root, force=False, say=quiet)
    git(root, "remote", "add", "origin", root.as_uri())
    git(root, "config", "uploadpack.allowAnySHA1InWant", "true")
    job = read("examples/ci/gitlab.yml")["ralphgen"]
    assert job["variables"]["RALPHGEN"].startswith("git+https://")  # and no package of a stranger
    script = "\n".join(line for line in job["script"] if not line.startswith("pip "))
    done = run(script, root, CI_MERGE_REQUEST_DIFF_BASE_SHA=base, PROJECT=".")

    assert 0 == done.returncode, done.stderr
    assert "`ralph:create_task` accepts `risk`" in done.stdout
    assert [] == [path for path in job["artifacts"]["paths"] if not (root / path).is_file()]


@pytest.mark.thorough
def test_the_hooks_of_pre_commit_run(root: Path) -> None:
    hooks = {hook["id"]: hook for hook in read(".pre-commit-hooks.yaml")}
    ended = {name: run(hook["entry"], root).returncode for name, hook in hooks.items()}

    assert {"ralphgen-check": 0, "ralphgen-policy": 0} == ended
    query(root, RISK)
    assert 1 == run(hooks["ralphgen-check"]["entry"], root).returncode
    regenerate(root, force=False, say=quiet)
    assert 1 == run(hooks["ralphgen-policy"]["entry"], root).returncode


def test_the_entry_of_the_registry_keeps_its_rules() -> None:
    """These are its documented rules; the interop lane checks it with the official schema."""
    entry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))

    assert {"name", "description", "version"} <= entry.keys()
    assert len(entry["description"]) <= 100
    assert 1 == entry["name"].count("/")
    assert __version__ == entry["version"]
    assert "packages" not in entry  # anybody can register the name on a public index
