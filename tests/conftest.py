"""Options and fixtures of the whole suite."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, create_project
from goldens import Goldens
from hypothesis import settings

# In CI the same examples each time: a new finding must not hold up a change that is not its cause.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the one switch that rewrites goldens; without it a missing golden fails."""
    parser.addoption(
        "--update-goldens", action="store_true", help="write what fixtures/*/ should hold"
    )


@pytest.fixture(scope="session")
def goldens(request: pytest.FixtureRequest) -> Goldens:
    """The goldens, rewritten where the switch says so."""
    return Goldens(update=bool(request.config.getoption("--update-goldens")))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two features, two disciplines and two tasks, of which 2 waits for 1."""
    return create_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[Driver]:
    """A person's session on the project, with every tool."""
    with connected(project) as driver:
        yield driver
