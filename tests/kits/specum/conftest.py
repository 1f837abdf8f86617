"""One project with the kits ralph and specum, and one server of specum, for all tests of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver
from specum_projects import Desk, sitting
from specum_runs import restored, rows_of


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Yield a user's session of the kit for tests on the initial project."""
    with sitting(tmp_path_factory.mktemp("specum")) as desk:
        yield desk


@pytest.fixture(scope="session")
def project_rows(session: Desk) -> dict[str, list[tuple[object, ...]]]:
    """Return the initial rows of the project's tables."""
    return rows_of(session.root)


@pytest.fixture
def desk(session: Desk, project_rows: dict[str, list[tuple[object, ...]]]) -> Desk:
    """Return the session on a project without specs and with its initial tasks."""
    session.clear()
    restored(session.root, project_rows)
    return session


@pytest.fixture
def root(desk: Desk) -> Path:
    """Return the project of that session, for tests that may not change its schema."""
    return desk.root


@pytest.fixture
def driver(desk: Desk) -> Driver:
    """Return the client of that session."""
    return desk.driver
