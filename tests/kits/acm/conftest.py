"""One project with documents and capabilities, and one server of acm, for all tests of a run."""

from collections.abc import Iterator

import pytest
from acm_projects import Library, reading


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Yield a user's session of the kit for read-only tests."""
    with reading(tmp_path_factory.mktemp("acm")) as library:
        yield library


@pytest.fixture
def library(session: Library) -> Library:
    """Return the session with the initial documents and capabilities."""
    session.clear()
    return session
