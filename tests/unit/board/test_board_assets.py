"""What a first page of the board loads: one page, its sheets and its scripts, all of them small."""

import re
from collections.abc import Iterator

import pytest
from board_browsers import Running, running_board
from mornings import morning

pytestmark = pytest.mark.slow
MOST = {"html": 60_000, "css": 22_000, "js": 22_000}  # bytes


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_board(morning(tmp_path_factory.mktemp("assets") / "p")) as running:
        yield running


@pytest.mark.parametrize("path", ["", "tasks", "tasks?layout=board"])
def test_a_first_page_is_small(board: Running, path: str) -> None:
    page = board.get(path)
    sizes = {"html": len(page.encode())}
    loaded = re.findall(r'(?:href|src)="(/assets/[^"]+\.(css|js))"', page)
    assert {"css", "js"} == {kind for _, kind in loaded}
    for address, kind in loaded:
        sizes[kind] = sizes.get(kind, 0) + len(board.get(address).encode())
    assert {kind: size for kind, size in sizes.items() if size > MOST[kind]} == {}


def test_a_script_is_served_without_comments_and_indents(board: Running) -> None:
    text = board.get("/assets/board.js")
    assert '"use strict";' in text
    assert not [line for line in text.splitlines() if line.startswith((" ", "//")) or not line]
