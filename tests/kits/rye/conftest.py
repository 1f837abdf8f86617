"""Fixtures for the unit tests of the rye kit."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_hosts import Names
from lifelines import until
from rye_workspaces import Workspace, opened


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Yield a workspace with a project and a user space."""
    with opened(tmp_path) as workspace:
        yield workspace


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Return a fake resolver; a test adds the host names."""
    return Names(monkeypatch)


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """Fail if a test leaves a new thread."""
    threads = threading.active_count()
    yield

    assert until(lambda: threads == threading.active_count())
