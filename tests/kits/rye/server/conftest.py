"""A server of the kit rye for each module of tests."""

from collections.abc import Iterator

import pytest
from rye_projects import Rye, serving


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rye]:
    """A session on a project, with the settings that the module names `SETTINGS`."""
    settings: str = getattr(request.module, "SETTINGS", "")
    with serving(tmp_path_factory.mktemp("rye"), settings=settings) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """The same session, without items and without a key."""
    shared.clear()
    return shared
