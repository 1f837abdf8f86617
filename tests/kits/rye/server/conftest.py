"""Fixtures for the server tests of the rye kit: one server per module."""

from collections.abc import Iterator

import pytest
from rye_projects import Rye, serving


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rye]:
    """Yield a session on a project, with the module's `SETTINGS` if defined."""
    settings: str = getattr(request.module, "SETTINGS", "")
    with serving(tmp_path_factory.mktemp("rye"), settings=settings) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """Return the session without items and without a key."""
    shared.clear()
    return shared
