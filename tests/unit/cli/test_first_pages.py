"""The first pages are true: every command block runs, and prints the output on the page."""

import os
import re
from collections.abc import Callable
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest
from command_line import RALPHGEN, initialized, ralphgen, run_sql
from proved_projects import git
from typed_pages import commands, type_page

from ralphgen.kits.registry import KITS
from ralphgen.project.config import read_config
from ralphgen.project.inspect import settings_models

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LEFT_OUT = {  # how a line begins that is not run, and why
    "python3 -m venv": "sets up this repository; .ci/run runs both lines",
    ".venv/bin/ralphgen": "needs the line before it",
    "pipx ": "installation",
    "uv tool ": "installation",
    "ralphgen --install-completion": "changes the start of your shell",
    "man ": "needs a clone and man",
    "ralphgen launch ": "needs a model",
    "ralphgen undo SESSION": "typed by the test of the pages on loops",
    "claude -p ": "needs a model",
    "ralphgen loop --max-time": "needs a model",
    "ralphgen loop --worktrees --onto night/monday --agent claude": "needs a model",
    "ralphgen board": "needs a browser",
}


def runnable(page: str) -> str:
    """A page without the lines that cannot be run here."""
    kept = [line for line in page.splitlines(keepends=True) if not line.startswith((*LEFT_OUT,))]
    return "".join(kept)


def stranger(folder: Path) -> None:
    """Prepare a foreign repository, which would run a program."""
    root = initialized(folder / "stranger")
    settings = root / ".ralph/ralphgen.toml"
    check = '[[done.checks]]\nname = "tests"\nrun = ["curl", "https://example.com/x.sh"]\n'
    settings.write_text(settings.read_text(encoding="utf-8") + check, encoding="utf-8")
    assert 0 == ralphgen("regen", "--no-install", cwd=root).returncode
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def project(folder: Path) -> None:
    """Prepare a repository with a commit and a ready task."""
    root = initialized(folder)
    words = ("task", "add", "x", "--feature", "f", "--discipline", "implementation", "--ready")
    for command in (("feature", "add", "f"), words):
        assert 0 == ralphgen(*command, cwd=root).returncode
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


PREPARED: dict[str, Callable[[Path], None]] = {"security": stranger, "trust": stranger}


@pytest.mark.parametrize(
    "name",
    [
        "clients",
        "install",
        "commands",
        "concepts",
        "exit-codes",
        "checks",
        "closing",
        "gate",
        "git",
        "launch",
        "limits",
        "loop",
        "merges",
        "night",
        "proof",
        "protected",
        "recipes",
        "recovery",
        "security",
        "settings",
        "tasks",
        "team",
        "troubleshooting",
        "trust",
    ],
)
def test_every_block_of_a_page_runs(name: str, tmp_path: Path) -> None:
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    if name == "loop":  # another test types its options
        page = page.partition("## Start small")[0]
    if name == "team":  # another test types the steps with a database
        page = page.partition("## 2.")[0]
    if name == "night":  # the page of the morning continues its project
        page += (ROOT / "docs/review.md").read_text(encoding="utf-8")
    if name in PREPARED:
        PREPARED[name](tmp_path)
    place = tmp_path / "here"
    place.mkdir()

    assert type_page(runnable(page), tmp_path, place) > 0


def test_the_readme_shows_what_its_example_prints(tmp_path: Path) -> None:
    (shown,) = [expected for command, expected in commands(README) if expected is not None]
    (example,) = re.findall(r"```sh\n(git init.*?)```", README, re.DOTALL)
    log = tmp_path / "log"
    example = example.replace("--agent robot\n", f"--agent robot 2>&1 | tee {log}\n")

    assert 1 == type_page(f"```sh\n{example}```\n", tmp_path, tmp_path)
    assert OutputChecker().check_output(shown, log.read_text(encoding="utf-8"), ELLIPSIS)


def test_the_readme_names_commands_that_run(tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\n(ralphgen init  .*?)```", README, re.DOTALL)
    project(tmp_path)

    assert 1 == type_page(f"```sh\n{runnable(block)}```\n", tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["checks", "recipes"])
def test_settings_on_a_page_are_valid(name: str, tmp_path: Path) -> None:
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    is_recipe = block.startswith("# .ralph/recipes/")
    path = tmp_path / (block.split()[1] if is_recipe else ".ralph/ralphgen.toml")
    path.parent.mkdir(parents=True)
    path.write_text(block, encoding="utf-8")
    if is_recipe:
        initialized(tmp_path)
    else:
        read_config(tmp_path, tuple(kit.key for kit in KITS), settings_models(KITS))


def test_clone_without_its_database_gets_to_a_passing_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```sh\n(git init.*?)```", README, re.DOTALL)
    begun, _, _ = block.partition("ralphgen loop")
    assert 1 == type_page(f"```sh\n{begun}```\n", tmp_path, tmp_path)
    git(tmp_path / "shop", "add", "-A")
    git(tmp_path / "shop", "commit", "-qm", "x")
    git(tmp_path, "clone", "-q", "shop", "clone")
    clone = tmp_path / "clone"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{RALPHGEN.parent}:{os.environ['PATH']}")
    new = ("task", "add", "x", "--feature", "f", "--discipline", "implementation", "--ready")

    def typed(code: int, *words: str) -> str:
        done = ralphgen(*words, cwd=clone)
        assert code == done.returncode, done.stderr
        return done.stdout + done.stderr

    assert "error database     no database at .ralph/db/ralph.db\n" in typed(1, "doctor")
    assert 1 == typed(0, "init", "--yes").count("warning: ")
    assert "error trust        this project has not been approved" in typed(1, "doctor")
    for words in (("trust", "--yes"), ("feature", "add", "f"), new):
        typed(0, *words)
    assert "  1 done      1 x\n" in typed(0, "loop", "--agent", "robot")
    session = typed(0, "undo").partition(" ")[0]
    assert "restored task 1" in typed(0, "undo", session, "--yes")
    run_sql(clone, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    assert '"tasks.risk" is missing\nhint: run "ralphgen regen"' in typed(1, "check")
    typed(0, "regen")
    assert "the server is up to date" in typed(0, "check")
    assert "\nno errors, " in typed(0, "doctor")
