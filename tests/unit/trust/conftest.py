"""A foreign clone, a local project, and a user who has trusted nothing."""

import shutil
from pathlib import Path

import pytest
from command_line import initialized
from driving import made_here
from trusting import add


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
