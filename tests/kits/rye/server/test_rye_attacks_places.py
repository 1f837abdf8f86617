"""No call and no repository can read or write outside of the spaces."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from rye_attacks import OFF, code, items_of, marking, tree
from rye_projects import FOLDERS, TYPES, Rye, knowledge, put, python_tool

SETTINGS = OFF

LEADING_OUT = (
    "../../../outside/evil",
    "demo/../../../../outside/evil",
    "demo/..",
    "..",
    ".",
    "./demo/a",
    "demo//a",
    "demo/a/",
    "/demo/a",
    "",
    " ",
    " demo/a",
    "demo/a\n",
    "demo/a\0",
    "demo/a\0.py",
    "demo/a.py",
    "Demo/A",
    "demo\\..\\a",
    "%2e%2e/%2e%2e/outside/evil",
    "demo%2fa",
    "~/.ai/tools/a",
    "${HOME}/a",
    "{project_path}/a",
    "file:///etc/passwd",
    "demo\uff0fa",  # full-width slash
    "demo\u2215a",  # division slash
    "d\u0435mo/a",  # Cyrillic letter
    "demo/a\u200b",
    "\u202eomed/a",
    "demo/" + "a" * 65,
    "a/" * 200 + "a",
    "../" * 5_000 + "etc/passwd",
)
PATTERNS = (
    "../../*",
    "../../../outside/*",
    "**/../../../../outside/*",
    "demo/../*",
    "/**",
    "*/",
    "~/*",
    "[a-z]*",
    "{a,b}*",
    "*.py",
    "demo/**x",
    ".*",
    "*\0",
)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def bound(path: Path) -> None:
    """Create a socket; its path may be longer than the limit of an address."""
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


LINKS: dict[str, Callable[[Rye, Path], object]] = {
    "the item": lambda rye, there: link(rye.file("tool", "evil"), there / "tools/evil.py"),
    "its folder": lambda rye, there: link(rye.project / "tools/demo", there / "tools"),
    "the type's folder": lambda rye, there: link(rye.project / "tools", there / "tools"),
    "the space": lambda rye, there: link(rye.project, there),
    "the space of the user": lambda rye, _: link(rye.project, rye.user.resolve()),
}
KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": bound,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing.py"),
    "a file that is too long": lambda path: path.write_bytes(b"#" * ((1 << 20) + 1)),
}


@pytest.fixture
def outside(shared: Rye) -> Path:
    """Return a directory outside of the project, with files that could be items."""
    folder = shared.folder / "outside"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("evil", "tools/evil"):
        put(folder / f"{name}.py", python_tool("evil", marking(shared.folder / "marker")))
        put(folder / f"{name}.md", knowledge("evil"))
    return folder


@pytest.fixture
def rye(shared: Rye, outside: Path) -> Rye:
    """Return the session with one item of each type, next to that directory."""
    assert outside.is_dir()
    shared.clear()
    for item_type in TYPES:
        shared.put(item_type, "demo/a")
    return shared


def marker(rye: Rye) -> bool:
    return (rye.folder / "marker").exists()


@pytest.mark.parametrize("item_id", LEADING_OUT)
def test_nothing_is_executed_under_an_id_that_leads_elsewhere(rye: Rye, item_id: str) -> None:
    """S1: an id is checked before it becomes a path."""
    found = {code(rye, "execute", item_type=each, item_id=item_id) for each in TYPES}

    assert {"INVALID_ID"} == found
    assert not marker(rye)


@pytest.mark.parametrize("item_id", LEADING_OUT)
def test_nothing_is_read_copied_or_signed_under_such_an_id(
    rye: Rye, outside: Path, item_id: str
) -> None:
    """S2: for the source and for the destination."""
    before = tree(outside), items_of(rye)
    found = [
        code(rye, tool, item_type=each, item_id=item_id, **more)
        for each in TYPES
        for tool, more in (
            ("load", {}),
            ("load", {"destination": "user"}),
            ("load", {"destination": "project", "source": "system"}),
            ("sign", {}),
            ("sign", {"source": "user"}),
        )
    ]

    assert ["INVALID_ID"] * 15 == found
    assert before == (tree(outside), items_of(rye))


@pytest.mark.parametrize("place", ["tools", "tools/demo", "tools/demo/a.py", ""])
def test_a_copy_follows_no_link(rye: Rye, outside: Path, place: str) -> None:
    """S2: nothing is written if the destination leads outside of the space."""
    link(rye.user / place, outside / place)
    before = tree(outside), items_of(rye)
    given = {"item_type": "tool", "item_id": "demo/a", "destination": "user"}
    found = code(rye, "load", **given, overwrite=True)

    assert "SPACE_VIOLATION" == found
    assert before == (tree(outside), items_of(rye))


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_no_item(rye: Rye, outside: Path, kind: str) -> None:
    """S3: no link is listed, read, executed, copied or signed, anywhere in the space."""
    rye.clear()
    LINKS[kind](rye, outside)
    before = tree(outside), items_of(rye)
    found = {
        code(rye, tool, item_type="tool", item_id=item_id, source="project", **more)
        for item_id in ("evil", "demo/evil")
        for tool, more in (
            ("load", {}),
            ("load", {"destination": "user"}),
            ("execute", {}),
            ("sign", {}),
        )
    }
    patterns = {code(rye, "sign", item_type="tool", item_id=each) for each in ("**", "demo/e*")}

    assert {"ITEM_NOT_FOUND"} == found | patterns
    assert [] == rye.found("", "tool", source="project")
    assert before == (tree(outside), items_of(rye))
    assert not marker(rye)


def test_a_link_gives_no_second_id(rye: Rye) -> None:
    """S3: a file within the space has one id, which follows from its path."""
    link(rye.file("tool", "other/b"), rye.file("tool", "demo/a"))

    assert "ITEM_NOT_FOUND" == code(rye, "load", item_type="tool", item_id="other/b")
    assert ["demo/a"] == rye.found("", "tool", source="project")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_no_item(rye: Rye, kind: str) -> None:
    """S3: reading it does not block."""
    path = rye.file("tool", "demo/evil")
    KINDS[kind](path)
    found = [
        code(rye, tool, item_type="tool", item_id="demo/evil")
        for tool in ("load", "execute", "sign")
    ]

    assert ["ITEM_NOT_FOUND"] * 3 == found
    assert ["demo/a"] == rye.found("", "tool", source="project")
    assert ["demo/a"] == rye.sign("tool", "**")["signed"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_leads_out(rye: Rye, outside: Path, pattern: str) -> None:
    """S4: a pattern is checked like an id."""
    before = tree(outside), items_of(rye)
    found = {code(rye, "sign", item_type=each, item_id=pattern) for each in TYPES}

    assert {"INVALID_ID"} == found
    assert before == (tree(outside), items_of(rye))


@pytest.mark.parametrize("pattern", ["**", "*", "demo/**", "**/a"])
def test_a_pattern_means_what_lies_inside(rye: Rye, outside: Path, pattern: str) -> None:
    """S4: links are not followed, and files of other types are not changed."""
    link(rye.project / "knowledge/demo/out", outside)
    link(rye.project / "knowledge/evil.md", outside / "evil.md")
    readme = put(rye.root / "README.md", knowledge("readme"))
    before = tree(outside), readme.read_bytes()

    assert ["demo/a"] == rye.sign("knowledge", pattern)["signed"]
    assert before == (tree(outside), readme.read_bytes())


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "relative",
        ".ai",
        "",
        "\0",
        "~",
        "{root}\0",
        "{root}/..",
        "{root}/../outside",
        "{root}/way",
        "{root}/no",
        "{root}/.ai/tools/demo/a.py",
        "{root}beside",
        "/",
        "//",
        "/proc/self/root",
        "file://{root}",
        "/" + "a" * 5_000,
        "/" + "a/" * 50_000,
    ],
)
def test_another_project_is_out_of_reach(rye: Rye, outside: Path, path: str) -> None:
    """S1: neither by path nor through dots or links."""
    put(outside / ".ai/tools/demo/b.py", python_tool("demo/b", marking(rye.folder / "marker")))
    shutil.copytree(outside, rye.folder / "projectbeside", dirs_exist_ok=True)
    (rye.root / "way").unlink(missing_ok=True)
    link(rye.root / "way", outside)
    given = {"item_type": "tool", "project_path": path.format(root=rye.root)}
    found = [code(rye, tool, item_id="demo/b", **given) for tool in ("load", "execute", "sign")]

    assert ["INVALID_PROJECT_PATH"] * 3 == found
    assert "INVALID_PROJECT_PATH" == code(rye, "search", query="", **given)
    assert not marker(rye)


def test_executing_leaves_nothing_behind(rye: Rye) -> None:
    """S26: no lock files are created, even for ids with slashes."""
    rye.put("tool", "demo/deep/er/b")
    before = tree(rye.folder)
    for item_type, item_id in (("tool", "demo/deep/er/b"), ("tool", "a"), ("knowledge", "demo/a")):
        rye.says("execute", item_type=item_type, item_id=item_id)
        rye.says("execute", item_type=item_type, item_id=item_id, dry_run=True)

    assert before == {path: data for path, data in tree(rye.folder).items() if path in before}
    assert {*before} == {*tree(rye.folder)}


def test_the_folders_of_types_are_named_by_nobody(rye: Rye) -> None:
    """S2: the type must be one of the known words."""
    for word in ("../tools", "tools", "tool/../knowledge", "", "system", *FOLDERS.values()):
        if word not in TYPES:
            given = {"item_type": word, "item_id": "demo/a"}
            found = [code(rye, tool, **given) for tool in ("load", "execute", "sign")]

            assert ["VALIDATION_FAILED"] * 3 == found
