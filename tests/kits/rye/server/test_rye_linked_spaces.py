"""Linked directories of items are not followed; each answer warns once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rye_projects import TYPES, Rye, serving

from ralphgen.kits.rye import find_items

LINK = "is a symbolic link, which is not followed: replace it with the directory"
OF_PROJECT = f'".ai" of the project space {LINK}'
OF_TYPE = f'"tools" of the project space {LINK}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    with serving(tmp_path_factory.mktemp("linked")) as session:
        yield session


@pytest.fixture
def rye(server: Rye) -> Iterator[Rye]:
    """Yield a session with items in the project and one in the user space."""
    for item_type in TYPES:
        server.put(item_type, "demo/sample")
    server.put("knowledge", "mine", space="user")
    yield server
    server.clear()


def moved(folder: Path) -> None:
    """Move the directory and leave a link in its place."""
    place = folder.with_name(f"{folder.name}-moved")
    folder.rename(place)
    folder.symlink_to(place)


@pytest.fixture
def linked(rye: Rye) -> Iterator[Callable[[str], None]]:
    """Yield a function that moves the project's items, or one type, behind a link."""
    moves: list[Path] = []

    def link(name: str) -> None:
        folder = rye.project / name if name else rye.project
        moved(folder)
        moves.append(folder)

    yield link
    for folder in moves:
        folder.unlink()
        folder.with_name(f"{folder.name}-moved").rename(folder)


Link = Callable[[str], None]


def test_a_search_finds_the_others_and_says_what_it_does_not_see(rye: Rye, linked: Link) -> None:
    linked("")
    answer = rye.says("search", item_type="all", query="", limit=100)

    assert {"user", "system"} == {result["source"] for result in answer["results"]}
    assert [OF_PROJECT] == answer["warnings"]


def test_a_type_that_is_a_link_is_spoken_of_where_it_is_asked_for(rye: Rye, linked: Link) -> None:
    linked("tools")
    found = {
        kind: rye.says("search", item_type=kind, query="").get("warnings")
        for kind in ("all", *TYPES)
    }
    user = rye.says("search", item_type="all", query="", source="user")

    assert {"all": [OF_TYPE], "tool": [OF_TYPE], "directive": None, "knowledge": None} == found
    assert "warnings" not in user


def test_what_is_loaded_instead_comes_with_the_warning(rye: Rye, linked: Link) -> None:
    assert "warnings" not in rye.load("knowledge", "mine")
    linked("")

    assert [OF_PROJECT] == rye.load("knowledge", "mine")["warnings"]
    assert "warnings" not in rye.load("knowledge", "mine", source="user")


@pytest.mark.parametrize("tool", ["load", "execute", "sign"])
def test_an_item_behind_the_link_is_not_found_for_that_reason(
    rye: Rye, linked: Link, tool: str
) -> None:
    linked("")
    error = rye.refuses(tool, item_type="tool", item_id="demo/sample")

    assert "ITEM_NOT_FOUND" == error["code"]
    assert error["message"].endswith(f"; {OF_PROJECT}")


@pytest.mark.parametrize(("name", "place"), [("", ".ai"), ("tools", ".ai/tools")])
def test_inspecting_warns_once(rye: Rye, linked: Link, name: str, place: str) -> None:
    linked(name)

    assert (f"{place}: is a symbolic link: nothing behind it is an item",) == (
        find_items(rye.root, {}).warnings
    )
