"""Locations of the spaces: USER_SPACE, HOME and the directories of a project."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import snapshot
from rye_projects import (
    FOLDERS,
    SYSTEM_ITEMS,
    TYPES,
    Rye,
    knowledge,
    on_server,
    put,
    python_tool,
    rye_project,
    serving,
    session,
    well_formed,
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


@contextmanager
def at(folder: Path, environment: Mapping[str, str]) -> Iterator[Rye]:
    """Yield a session with a minimal environment and these variables."""
    root = folder / "project"
    if not root.exists():
        rye_project(root)
    with on_server(root.resolve(), environment) as driver:
        yield Rye(folder, root.resolve(), driver)


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("", "home/.ai"),
        (" ", "home/.ai"),
        ("~/.ai", "home/.ai"),
        ("~", "home/.ai"),
        ("~/mine", "home/mine/.ai"),
        ("{folder}/else/.ai", "else/.ai"),
        ("{folder}/else", "else/.ai"),
        ("{folder}/else/", "else/.ai"),
        ("{folder}/plain", "plain"),
    ],
)
def test_items_of_the_user_are_read_and_written_where_the_variable_says(
    tmp_path: Path, named: str, place: str
) -> None:
    """It is the space itself if it is called `.ai` or contains items, otherwise its parent."""
    folder = tmp_path.resolve()
    (folder / "home").mkdir()
    put(folder / place / NOTE, knowledge("mine/note"))
    decoy = {"home/.ai", "else/.ai", "plain/.ai"} - {place}
    for other in decoy:
        put(folder / other / "knowledge/decoy.md", knowledge("decoy"))
    variables = {"HOME": str(folder / "home"), "USER_SPACE": named.format(folder=folder)}
    with at(folder, variables) as rye:
        found = rye.found("", source="user")
        path = rye.load("knowledge", "note")["path"]
        rye.load("knowledge", "rye/tool-format", destination="user")
        rye.sign("knowledge", "mine/note", source="user")

    assert ["mine/note"] == found
    assert str(folder / place / NOTE) == path
    assert (folder / place / "knowledge/rye/tool-format.md").is_file()
    assert (folder / place / "keys/private_key.pem").is_file()
    for other in decoy:
        assert ["decoy.md"] == [path.name for path in (folder / other).rglob("*.*")]


def test_without_the_variable_it_is_dot_ai_in_the_home(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    put(folder / "home/.ai" / NOTE, knowledge("mine/note"))
    put(folder / "other/.ai/knowledge/decoy.md", knowledge("decoy"))
    with at(folder, {"HOME": str(folder / "home")}) as rye:
        found = rye.found("", source="user")
    with at(folder, {"HOME": str(folder / "other")}) as rye:
        elsewhere = rye.found("", source="user")

    assert (["mine/note"], ["decoy"]) == (found, elsewhere)


def test_a_space_of_the_user_within_the_project_is_none(tmp_path: Path) -> None:
    """A repository could contain one, with its own trusted key."""
    folder = tmp_path.resolve()
    root = rye_project(folder / "project")
    put(root / ".home/.ai" / NOTE, knowledge("mine/note"))
    (folder / "home").mkdir()
    for named in (root / ".home", root / ".ai", root):
        with at(folder, {"HOME": str(folder / "home"), "USER_SPACE": str(named)}) as rye:
            rye.put("knowledge", "note", "")
            before = [snapshot(place) for place in (root / ".ai", root / ".home")]
            found = rye.found("", source="user")
            errors = [
                rye.refuses("sign", item_type="knowledge", item_id="note"),
                rye.refuses("load", item_type="knowledge", item_id="note", destination="user"),
            ]

        assert [] == found
        assert ["SPACE_VIOLATION", "READ_ONLY_SPACE"] == [error["code"] for error in errors]
        assert all("USER_SPACE" in error["message"] for error in errors), errors
        assert before == [snapshot(place) for place in (root / ".ai", root / ".home")]


def test_spaces_that_are_not_there_have_no_items(tmp_path: Path) -> None:
    with serving(tmp_path) as rye:
        found = [rye.found("", source=source) for source in ("project", "user")]
        everything = rye.found("", limit=100)
        errors = [
            rye.refuses("load", item_type=item_type, item_id="demo/none") for item_type in TYPES
        ]
        made = rye.project.exists(), rye.user.exists()

    assert [[], []] == found
    assert sorted(item_id for ids in SYSTEM_ITEMS.values() for item_id in ids) == sorted(everything)
    assert {"ITEM_NOT_FOUND"} == {error["code"] for error in errors}
    assert (False, False) == made


@pytest.mark.parametrize("item_type", TYPES)
def test_a_space_that_comes_and_goes_while_the_server_runs_is_noticed(
    tmp_path: Path, item_type: str
) -> None:
    with serving(tmp_path) as rye:
        counts = []
        for space in ("project", "user"):
            for _ in range(2):
                rye.put(item_type, "demo/zebra", space=space)
                counts.append(len(rye.found("zebra", item_type)))
                rye.clear()
                counts.append(len(rye.found("zebra", item_type)))

    assert [1, 0] * 4 == counts


def test_what_stands_in_the_place_of_a_folder_of_items_is_none(tmp_path: Path) -> None:
    with serving(tmp_path) as rye:
        put(rye.project / "knowledge", "a file")
        (rye.project / "tools").mkdir()
        put(rye.user, "a file")
        found = rye.found("", limit=100)

    assert sorted(item_id for ids in SYSTEM_ITEMS.values() for item_id in ids) == sorted(found)


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


def test_a_tool_below_its_project_runs_in_the_project(rye: Rye) -> None:
    path = rye.root / "packages/app/src"
    path.mkdir(exist_ok=True)
    ran = rye.says("execute", item_type="tool", item_id="where", project_path=str(path))

    assert str(rye.root / "packages/app") == ran["data"]["project"]


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


@pytest.mark.parametrize("item_type", TYPES)
def test_the_systems_items_are_told_as_its_own_wherever_the_server_lies(
    tmp_path: Path, item_type: str
) -> None:
    """Upstream guessed from the path and mistook items of an editable install for project items."""
    folder = tmp_path / "site-packages" / ".ai" / "rye"
    with serving(folder) as rye:
        rye.put(item_type, "demo/own", well_formed(item_type, "demo/own"))
        results = rye.says("search", item_type=item_type, query="", limit=100)["results"]
    sources = {result["id"]: result["source"] for result in results}

    assert {"demo/own": "project", **dict.fromkeys(SYSTEM_ITEMS[item_type], "system")} == sources
    assert all(FOLDERS[item_type] in Path(result["path"]).parts for result in results)
