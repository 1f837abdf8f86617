"""Loading shows the text, metadata and trust of an item, and runs nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from command_line import snapshot
from rye_projects import (
    HTTP_CLIENT,
    SYSTEM_ITEMS,
    TYPES,
    Rye,
    serving,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session with a strict policy for execution."""
    folder = tmp_path_factory.mktemp("reading")
    with serving(folder, settings='policy = "trusted"') as found:
        yield found


@pytest.fixture
def rye(server: Rye) -> Rye:
    """Return the session without items in the project and the user space."""
    server.clear()
    return server


def test_reading_leaves_everything_as_it_was(rye: Rye) -> None:
    for item_type in TYPES:
        rye.put(item_type, "demo/greet")
    before: list[Any] = [
        snapshot(place) for place in (rye.project, rye.system, rye.folder / "home")
    ]
    for item_type, ids in SYSTEM_ITEMS.items():
        rye.load(item_type, "demo/greet")
        rye.load(item_type, ids[0])
    rye.load("tool", HTTP_CLIENT, source="system")

    assert before == [snapshot(place) for place in (rye.project, rye.system, rye.folder / "home")]
    assert not rye.user.exists()
