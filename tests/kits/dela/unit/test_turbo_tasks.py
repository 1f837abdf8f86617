"""The tasks of turbo.json files that turbo accepts in a directory."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.formats import scripts as turbo
from ralphgen.kits.dela.server.task import Folder, Task, UnreadableError

PACKAGE = ["//"]

Files = Mapping[str, object]
Places = list[tuple[str, str]]  # name and defining file


def write(path: Path, files: Files, folder: str = "", root: str = "") -> Folder:
    """Write files, as JSON unless they are strings; return the directory in its root."""
    for name, value in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, str) else json.dumps(value)
        (path / name).write_text(text, encoding="utf-8")
    (path / folder).mkdir(parents=True, exist_ok=True)
    return Folder(os.path.realpath(path / folder), os.path.realpath(path / root))


def listed(folder: Folder) -> list[Task]:
    return list(turbo.turbo_tasks(folder))


def names(folder: Folder) -> list[str]:
    return [task.name for task in listed(folder)]


def places(path: Path, folder: Folder) -> Places:
    return [
        (task.name, os.path.relpath(task.path, os.path.realpath(path))) for task in listed(folder)
    ]


def tasks(*names_: str, extends: list[str] | None = None) -> dict[str, object]:
    """Return a turbo.json with these tasks; with `extends`, one of a package."""
    config: dict[str, object] = {} if extends is None else {"extends": extends}
    return config | {"tasks": {name: {} for name in names_}}


REPOSITORY: Files = {
    "turbo.json": tasks("build", "test"),
    "apps/web/turbo.json": {
        "extends": ["//", "config", "../near"],
        "tasks": {"dev": {}, "build": {}, "test": {"extends": False}, "lint": {"extends": False}},
    },
    "apps/near/turbo.json": tasks("near", extends=PACKAGE),
    "apps/api/src/index.ts": "",
    "packages/config/package.json": {"name": "config"},
    "packages/config/turbo.json": tasks("format", "lint", extends=PACKAGE),
    "node_modules/config/package.json": {"name": "config"},
    "node_modules/config/turbo.json": tasks("wrong", extends=PACKAGE),
    ".git/turbo.json": tasks("wrong", extends=PACKAGE),
    "examples/app/turbo.json": tasks("wrong"),
    "examples/app/packages/one/turbo.json": tasks("wrong", extends=PACKAGE),
}


WORKSPACES: dict[str, tuple[Files, list[str]]] = {
    "npm": ({"package.json": {"workspaces": ["packages/*", "!packages/no"]}}, ["a", "c"]),
    "yarn": (
        {"package.json": {"workspaces": {"packages": ["./packages/**"]}}},
        ["a", "b", "c", "no"],
    ),
    "pnpm": (
        {"package.json": {"workspaces": ["no"]}, "pnpm-workspace.yaml": "packages: ['**/a', ext?]"},
        ["a", "d"],
    ),
    "folders by name": ({"package.json": {"workspaces": ["packages/a", "ext1/"]}}, ["a", "d"]),
    "none": ({"package.json": {"name": "all"}}, ["a", "b", "c", "d", "no"]),
}


@pytest.mark.parametrize("case", WORKSPACES)
def test_only_packages_of_the_workspace_count(case: str, tmp_path: Path) -> None:
    found, members = WORKSPACES[case]
    named = {"a": "packages/a", "b": "packages/deep/b", "c": "packages/c", "d": "ext1"}
    named |= {"no": "packages/no"}
    files: dict[str, object] = {
        **found,
        "turbo.json": tasks("x", "gone#y"),
    }
    for name, place in named.items():
        files[f"{place}/package.json"] = {"name": name}
        files[f"{place}/turbo.json"] = tasks(f"of-{name}", extends=PACKAGE)
    expected = {"x", "gone#y", *(f"of-{name}" for name in members)}

    assert expected == {*names(write(tmp_path, files))}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            "",
            [
                ("build", "turbo.json"),
                ("test", "turbo.json"),
                ("near", "apps/near/turbo.json"),
                ("dev", "apps/web/turbo.json"),
                ("format", "packages/config/turbo.json"),
                ("lint", "packages/config/turbo.json"),
            ],
        ),
        (
            "apps/web",
            [
                ("dev", "apps/web/turbo.json"),
                ("build", "apps/web/turbo.json"),
                ("format", "packages/config/turbo.json"),
                ("near", "apps/near/turbo.json"),
            ],
        ),
    ],
)
def test_the_tasks_of_a_folder_of_a_repository(
    place: str, expected: Places, tmp_path: Path
) -> None:
    folder = write(tmp_path, REPOSITORY, place)

    assert expected == places(tmp_path, folder)
    assert [] == folder.problems


@pytest.mark.parametrize(("place", "expected"), [("apps/web", ["dev", "build"])])
def test_nothing_above_the_root_is_read(place: str, expected: list[str], tmp_path: Path) -> None:
    """A server of apps/web once listed the tasks of the whole repository."""
    folder = write(tmp_path, REPOSITORY, place, root=place)

    assert expected == names(folder)
    assert all(path.startswith(folder.root) for path in folder.stamps)


def test_the_search_upwards_ends_at_the_root_of_the_repository(tmp_path: Path) -> None:
    files = {"turbo.json": tasks("wrong"), "inner/.git/HEAD": ""}

    assert [] == names(write(tmp_path, files, "inner/apps"))
    files |= {"inner/turbo.json": tasks("right")}
    assert ["right"] == names(write(tmp_path, files, "inner/apps"))


def test_packages_that_extend_each_other_come_to_an_end(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "turbo.json": tasks("top"),
            "a/turbo.json": tasks("a", extends=["//", "../b", "../none", "none"]),
            "b/turbo.json": tasks("b", extends=["//", "../a", "../../.."]),
        },
        "a",
    )

    assert ["a", "top", "b"] == names(folder)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {"r/turbo.json": tasks("a"), "outside/turbo.json": tasks("b", extends=PACKAGE)},
        "r",
        root="r",
    )
    (tmp_path / "r/apps").symlink_to(tmp_path / "outside")
    (tmp_path / "r/again").symlink_to(tmp_path / "r")

    assert ["a"] == names(folder)


def test_a_package_that_cannot_be_read_is_reported_and_the_rest_listed(tmp_path: Path) -> None:
    files = {
        "turbo.json": tasks("a"),
        "b/turbo.json": "{",
        "c/turbo.json": tasks("c", extends=PACKAGE),
        "c/turbo.jsonc": "{}",
        "d/turbo.json": tasks("d", extends=["//", "../b"]),
    }
    folder = write(tmp_path, files)

    assert ["a", "d"] == names(folder)
    assert ["b/turbo.json", "c/turbo.json"] == [
        os.path.relpath(path, folder.path) for path, _ in folder.problems
    ]
    folder = write(tmp_path, files, "d")

    assert ["d", "a"] == names(folder)
    assert ["../b/turbo.json"] == [
        os.path.relpath(path, folder.path) for path, _ in folder.problems
    ]


def test_turbo_json_may_be_called_jsonc_but_not_both(tmp_path: Path) -> None:
    assert ["a"] == names(write(tmp_path, {"turbo.jsonc": tasks("a")}))
    with pytest.raises(UnreadableError, match=r'conflicts with "turbo.jsonc"'):
        names(write(tmp_path, {"turbo.json": tasks("a")}))


def test_a_broken_file_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="is not valid JSON"):
        names(write(tmp_path, {"turbo.json": "{"}))


def test_only_so_many_folders_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turbo, "MOST_FOLDERS", 3)
    deep = {f"{place}/turbo.json": tasks(place[-1], extends=PACKAGE) for place in ("a", "b", "b/c")}
    files = {**deep, "turbo.json": tasks("top")}

    assert ["top", "a", "b", "c"] == names(write(tmp_path, files))
    folder = write(tmp_path, files | {"a/x/turbo.json": tasks("x", extends=PACKAGE)})

    assert ["top", "a", "b", "x"] == names(folder)
    why = "lists only packages in the first 3 directories"
    assert [(folder.path, why)] == folder.problems


def test_every_file_that_counts_is_watched(tmp_path: Path) -> None:
    folder = write(tmp_path, REPOSITORY, "apps/web")
    listed(folder)
    looked = ("apps/web/turbo.json", "turbo.json", "packages/config/package.json", "packages")

    assert {os.path.realpath(tmp_path / name) for name in looked} <= folder.stamps.keys()
    folder = write(tmp_path, REPOSITORY)
    listed(folder)

    assert {
        folder.place(name) for name in ("", "apps", "apps/near/turbo.json", "apps/api/src")
    } <= (folder.stamps.keys())


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just("//")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["tasks", "pipeline", "extends"]), st.text(max_size=3)),
            inner,
            max_size=4,
        ),
    ),
)


@given(VALUES, VALUES, VALUES)
def test_no_value_is_too_odd(
    tmp_path_factory: pytest.TempPathFactory, all_: object, extends: object, inner: object
) -> None:
    path = tmp_path_factory.mktemp("odd")
    package = {"extends": extends, "tasks": inner}
    files = {"turbo.json": json.dumps(all_), "a/turbo.json": json.dumps(package)}
    folders = [write(path, files), write(path, files, "a")]

    assert all(name.isprintable() for folder in folders for name in names(folder))
