"""A foreign clone, a local project, and a user who has trusted nothing."""

import shutil
from pathlib import Path

import pytest
from command_line import initialized, ralphgen
from driving import made_here
from proved_projects import git
from trusting import CODE, TOOL, add, braindump, commit_all


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has trusted nothing yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a task, which is only copied."""
    root = tmp_path_factory.mktemp("trust") / "p"
    initialized(root)
    add(root, "INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'FF')")
    add(root, "INSERT INTO tasks (feature, discipline, title) VALUES ('f', 'testing', 'T')")
    return root


@pytest.fixture
def clone(model: Path, tmp_path: Path) -> Path:
    """A foreign project without a record here."""
    return shutil.copytree(model, tmp_path / "clone")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without rows, which is only copied."""
    return initialized(tmp_path_factory.mktemp("trust") / "p")


@pytest.fixture
def own(bare: Path, tmp_path: Path) -> Path:
    """A project that was made here."""
    return made_here(shutil.copytree(bare, tmp_path / "own"))


@pytest.fixture
def pulled(own: Path, tmp_path: Path) -> Path:
    """The user's accepted clone of a repository that others change, next to that repository."""
    for file, text in (("AGENTS.md", "Be nice.\n"), (TOOL, CODE.format("fine"))):
        (own / file).parent.mkdir(exist_ok=True)
        (own / file).write_text(text, encoding="utf-8")
    git(own, "init", "-q", "-b", "main")
    (own / ".git/info/exclude").write_text(".ralph/db/\n.ralph/trust/\n", encoding="utf-8")
    commit_all(own)
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode
    git(tmp_path, "clone", "-q", str(own), str(tmp_path / "theirs"))
    git(own, "remote", "add", "origin", str(tmp_path / "theirs"))
    assert 0 == braindump(own)
    return own
