"""Fixtures for the server tests of the dela kit: one project and one server per module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dela_projects import project_with, serving
from driving import Driver


@pytest.fixture(scope="module")
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the FILES of the module."""
    return project_with(tmp_path_factory.mktemp("dela") / "p", request.module.FILES)


@pytest.fixture(scope="module")
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Yield a client that may start every task of the project."""
    with serving(root, tmp_path_factory.mktemp("home")) as driver:
        yield driver
