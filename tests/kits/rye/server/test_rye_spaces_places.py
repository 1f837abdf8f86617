"""Locations of the spaces: USER_SPACE, HOME and the directories of a project."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from rye_projects import (
    Rye,
    knowledge,
    put,
    python_tool,
    rye_project,
    serving,
    session,
)

NOTE = "knowledge/mine/note.md"


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session on a project with items and with nested projects."""
    with serving(tmp_path_factory.mktemp("places"), settings='policy = "off"') as found:
        found.put("knowledge", "outer", "")
        put(found.root / "packages/app/.ai/knowledge/inner.md", knowledge("inner"))
        put(found.root / "packages/app/.ai/tools/where.py", python_tool("where"))
        (found.root / "packages/bare").mkdir()
        put(found.root / "a-file", "no folder")
        put(found.folder / "beside/.ai/knowledge/foreign.md", knowledge("foreign"))
        put(found.folder / "project-2/.ai/knowledge/foreign.md", knowledge("foreign"))
        (found.root / "inside").symlink_to(found.root / "packages/app")
        (found.root / "outside").symlink_to(found.folder / "beside")
        yield found


@pytest.mark.parametrize("tool", ["search", "load", "execute", "sign"])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "must be an absolute path"),
        (".", "must be an absolute path"),
        ("packages/app", "must be an absolute path"),
        ("~", "must be an absolute path"),
        ("{root}/none", "is not a directory"),
        ("{root}/a-file", "is not a directory"),
        ("{root}\0", "must be an absolute path"),
        ("{folder}", "is outside the project"),
        ("{folder}/beside", "is outside the project"),
        ("{folder}/project-2", "is outside the project"),
        ("{root}/..", "is outside the project"),
        ("{root}/packages/../../beside", "is outside the project"),
        ("{root}/outside", "is outside the project"),
        ("/", "is outside the project"),
    ],
)
def test_a_path_that_is_no_folder_of_the_project_is_refused(
    rye: Rye, tool: str, place: str, words: str
) -> None:
    wanted = {"query": ""} if tool == "search" else {"item_id": "foreign"}
    path = place.format(root=rye.root, folder=rye.folder)
    error = rye.refuses(tool, item_type="knowledge", project_path=path, **wanted)

    assert "INVALID_PROJECT_PATH" == error["code"]
    assert words in error["message"]
    assert error["message"].endswith(f': use "{rye.root}"')
    assert "foreign" not in error["message"]


@pytest.mark.parametrize("place", ["packages/app", "packages/app/", "packages/../inside", "inside"])
def test_a_folder_of_the_project_is_one_with_items_of_its_own(rye: Rye, place: str) -> None:
    path = f"{rye.root}/{place}"
    found = rye.found("", source="project", project_path=path)
    loaded = rye.load("knowledge", "inner", project_path=path)
    error = rye.refuses("load", item_type="knowledge", item_id="outer", project_path=path)
    ran = rye.says("execute", item_type="tool", item_id="where", project_path=path)

    assert ["inner", "where"] == sorted(found)
    assert str(rye.root / "packages/app/.ai/knowledge/inner.md") == loaded["path"]
    assert "ITEM_NOT_FOUND" == error["code"]
    assert str(rye.root / "packages/app") == ran["data"]["project"]


def test_the_items_of_a_folder_are_not_the_projects(rye: Rye) -> None:
    assert ["outer"] == rye.found("", source="project")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("packages/bare", ["outer"]),
        (".ai/knowledge", ["outer"]),
        ("packages/app/src/deep", ["inner", "where"]),
    ],
)
def test_a_directory_without_items_has_those_of_the_nearest_above(
    rye: Rye, place: str, expected: list[str]
) -> None:
    path = rye.root / place
    path.mkdir(parents=True, exist_ok=True)

    assert expected == sorted(rye.found("", source="project", project_path=str(path)))


def test_what_is_copied_or_signed_in_a_folder_stays_there(tmp_path: Path) -> None:
    with serving(tmp_path) as rye:
        inner = rye.root / "packages/app"
        inner.mkdir(parents=True)
        rye.load("knowledge", "rye/tool-format", destination="project", project_path=str(inner))
        rye.sign("knowledge", "rye/tool-format", project_path=str(inner))
        found = rye.found("", source="project"), rye.project.exists()
        states = [
            rye.load("knowledge", "rye/tool-format", project_path=str(path))["source"]
            for path in (rye.root, inner)
        ]

    assert ([], False) == found
    assert ["system", "project"] == states


def test_the_way_to_the_project_may_be_a_link(tmp_path: Path) -> None:
    with serving(tmp_path) as rye:
        rye.put("knowledge", "note", "")
        (tmp_path / "way").symlink_to(rye.root)
        path = rye.load("knowledge", "note", project_path=str(tmp_path / "way"))["path"]

    assert str(rye.project / "knowledge/note.md") == path


def test_a_project_that_was_moved_is_the_one_that_the_server_lies_in(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    rye_project(folder / "before")
    shutil.move(folder / "before", folder / "after")
    put(folder / "after/.ai" / NOTE, knowledge("mine/note"))
    with session(folder, folder / "after") as rye:
        found = rye.found("", source="project")
        system = rye.load("tool", "subprocess")

    assert ["mine/note"] == found
    assert ("system", "valid") == (system["source"], system["signature"]["state"])
    assert system["path"].startswith(str(folder / "after" / ".ralph"))
