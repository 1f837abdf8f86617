"""One project with the kits ralph and specum, and one server of specum, for all tests of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver
from specum_projects import Desk, sitting
from specum_runs import restored, rows_of


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A person's session of the kit, for all tests that find the project as it was made."""
    with sitting(tmp_path_factory.mktemp("specum")) as desk:
        yield desk


@pytest.fixture(scope="session")
def project_rows(session: Desk) -> dict[str, list[tuple[object, ...]]]:
    """What is in the project's tables before anything is done."""
    return rows_of(session.root)


@pytest.fixture
def desk(session: Desk, project_rows: dict[str, list[tuple[object, ...]]]) -> Desk:
    """The session, on a project without specs whose tasks are those that it was made with."""
    session.clear()
    restored(session.root, project_rows)
    return session


@pytest.fixture
def root(desk: Desk) -> Path:
    """The project of that session, for tests that may not change its schema."""
    return desk.root


@pytest.fixture
def driver(desk: Desk) -> Driver:
    """The client of that session."""
    return desk.driver
