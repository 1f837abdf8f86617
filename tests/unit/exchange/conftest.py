"""A database of the usual tables with a few rows, without a server."""

import shutil
from pathlib import Path

import pytest
from cases import INIT_SCHEMA
from driving import ROWS, create_database


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    create_database(folder, INIT_SCHEMA.read_text(encoding="utf-8"), ROWS)
    return folder


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "ours")
