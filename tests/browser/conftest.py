"""Fixtures for a browser and a board."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from driving import made_here

from browser.browsing import Chromium, open_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """A browser for the whole module."""
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of the module's project."""
    return made_here(shutil.copytree(made, tmp_path / "p"))


@pytest.fixture
def board(root: Path) -> Iterator[BoardProcess]:
    """A running board of the project."""
    with board_process(root) as running:
        yield running
