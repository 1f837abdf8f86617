"""Ids and patterns refer only to items of a space, never to other files."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import snapshot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.kits.rye.server.spaces import (
    TYPES,
    Item,
    Space,
    Spaces,
    check_id,
    check_pattern,
    id_of,
    matches,
    read_item,
    write_item,
)
from ralphgen.runtime.errors import CodedError

CANARY = "nobody may read this"
OWN = "of the space"
IDS = ("a", "git", "demo/git", "a-b_c/9/x", "a" * 64, "/".join(["a" * 63] * 4))
NO_IDS = (
    *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "~", "~/a", "C:/a"),
    *("A", "_a", "-a", ".a", "a.py", "a b", "a\\b", "a\0", "a\n", "é", "a/_b", "*", "a?", "[a]"),
    *("a" * 65, "/".join(["a" * 63] * 5), "\ud800", "a:b", "$a", "{a}", "%2e%2e/a", "\uff41"),
)
PATTERNS = ("*", "**", "?", "git*", "demo/*", "**/git", "demo/**", "a?c/*-x/**", "*a*", "a")
NO_PATTERNS = (
    *("", "../*", "/*", "*/", "a**", "**a/b", "***", "[a]*", "{a,b}", "*.py", "../../**", "a/../*"),
    *("*\0", "~/*", "A*", "_*", "a//*", "*" * 65, "\\*", "-*", "*/..", "C:*"),
)
PARTS = (
    *("..", ".", "", "out", "outside", "demo", "inside", "git", "evil", "new", "loop", "pipe"),
    *("*", "**", "?", "evil*", "~", "a", "deep", "/", "etc", "passwd", "tools", "canary"),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose space contains links to canary files outside."""
    root = tmp_path_factory.mktemp("world").resolve()
    for name in ("evil.py", "canary.md", "deep/evil.py", "deep/canary.md", "tools/evil.py"):
        lay(root / "outside" / name, CANARY)
    tools = root / "project/.ai/tools"
    lay(tools / "demo/git.py", OWN)
    lay(tools / "demo/deep/git.yaml", OWN)
    lay(root / "project/.ai/directives/demo/git.md", OWN)
    (tools / "out").symlink_to(root / "outside")
    (tools / "deep").symlink_to("../../../outside/deep")
    (tools / "evil.py").symlink_to(root / "outside/evil.py")
    (tools / "new.py").symlink_to(root / "outside/new.py")
    (tools / "inside").symlink_to("demo")
    (tools / "demo/evil.py").symlink_to("git.py")
    (tools / "loop").symlink_to("loop")
    os.mkfifo(tools / "pipe.py")
    (root / "project/.ai/knowledge").symlink_to(root / "outside")
    lay(root / "elsewhere/tools/evil.py", CANARY)
    (root / "user").mkdir()
    (root / "user/.ai").symlink_to(root / "elsewhere")
    return root


def lay(path: Path, text: str) -> None:
    """Write a file and create its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def spaces_of(root: Path) -> Spaces:
    project, user = root / "project/.ai", root / "user/.ai"
    system = root / "project/.ralph/mcp/rye/system"
    return Spaces(
        Space("project", str(project)), Space("user", str(user)), Space("system", str(system))
    )


class TestIds:
    """An id consists of parts with lower-case letters, digits, underscores and hyphens."""

    @pytest.mark.parametrize("text", IDS)
    def test_an_id_is_taken_as_it_is(self, text: str) -> None:
        assert text == check_id(text)

    @pytest.mark.parametrize("text", NO_IDS)
    def test_what_is_no_id_is_refused_in_one_line(self, text: str) -> None:
        with pytest.raises(CodedError) as refused:
            check_id(text)

        assert "INVALID_ID" == refused.value.code
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 400

    @given(st.text())
    def test_an_id_never_leads_upwards(self, text: str) -> None:
        try:
            found = check_id(text)
        except CodedError:
            return

        assert os.path.normpath(found) == found
        assert not found.startswith((".", "/", "_", "-"))

    @pytest.mark.parametrize(
        ("path", "item_type", "expected"),
        [
            ("demo/git.py", "tool", "demo/git"),
            ("git.yaml", "tool", "git"),
            ("git.yml", "tool", "git"),
            ("git.md", "directive", "git"),
            ("git.md", "tool", None),
            ("git.py", "knowledge", None),
            ("git.json", "tool", None),
            ("_git.py", "tool", None),
            (".git.py", "tool", None),
            (".py", "tool", None),
            ("__pycache__/git.py", "tool", None),
            (".hidden/git.py", "tool", None),
            ("Git.py", "tool", None),
            ("git.PY", "tool", None),
            ("git.test.py", "tool", None),
            ("../git.py", "tool", None),
        ],
    )
    def test_a_file_has_the_id_that_its_path_says_or_none(
        self, path: str, item_type: str, expected: str | None
    ) -> None:
        assert expected == id_of(path, item_type)


class TestPatterns:
    """A pattern is an id that may contain stars and question marks."""

    @pytest.mark.parametrize("text", PATTERNS)
    def test_a_pattern_is_taken_as_it_is(self, text: str) -> None:
        assert text == check_pattern(text)

    @pytest.mark.parametrize("text", NO_PATTERNS)
    def test_what_is_no_pattern_is_refused(self, text: str) -> None:
        with pytest.raises(CodedError) as refused:
            check_pattern(text)

        assert "INVALID_ID" == refused.value.code

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*", {"git", "demo/git", "demo/deep/git", "demo/deep/log", "other/log"}),
            ("**", {"git", "demo/git", "demo/deep/git", "demo/deep/log", "other/log"}),
            ("git", {"git", "demo/git", "demo/deep/git"}),
            ("g?t", {"git", "demo/git", "demo/deep/git"}),
            ("l*", {"demo/deep/log", "other/log"}),
            ("demo/*", {"demo/git"}),
            ("demo/**", {"demo/git", "demo/deep/git", "demo/deep/log"}),
            ("demo/**/git", {"demo/git", "demo/deep/git"}),
            ("demo/**/**", {"demo/git", "demo/deep/git", "demo/deep/log"}),
            ("**/git", {"git", "demo/git", "demo/deep/git"}),
            ("**/deep/*", {"demo/deep/git", "demo/deep/log"}),
            ("*/log", {"other/log"}),
            ("*/*/log", {"demo/deep/log"}),
            ("git/**", set()),
            ("demo", set()),
            ("none/**/git", set()),
            ("demo/git/*", set()),
        ],
    )
    def test_a_pattern_means_these_ids(self, pattern: str, expected: set[str]) -> None:
        ids = ("git", "demo/git", "demo/deep/git", "demo/deep/log", "other/log")
        check_pattern(pattern)

        assert expected == {item_id for item_id in ids if matches(pattern, item_id)}

    @pytest.mark.parametrize(
        ("pattern", "item_id"),
        [("*a" * 31 + "*b", "a" * 64), ("**/a/" * 50 + "b", "/".join("a" * 128))],
    )
    def test_no_pattern_takes_long(self, pattern: str, item_id: str) -> None:
        started = time.process_time()

        assert not matches(check_pattern(pattern), check_id(item_id))
        assert time.process_time() - started < 1


def besides_items(world: Path) -> dict[str, tuple[bytes, int]]:
    """Return all files except for the items of the project."""
    return {
        name: state
        for name, state in snapshot(world).items()
        if not name.startswith("project/.ai/")
    }


def within(path: str, folder: Path) -> bool:
    """Return whether a path resolves to a file within a directory."""
    return os.path.realpath(path).startswith(f"{folder}/")


@pytest.mark.thorough
@settings(max_examples=examples(400), deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(PARTS), max_size=6).map("/".join),
    st.sampled_from(TYPES),
    st.sampled_from((None, "project", "user")),
)
@example("evil", "tool", "project")
@example("out/evil", "tool", "project")
@example("deep/evil", "tool", "project")
@example("new", "tool", "project")
@example("canary", "knowledge", "project")
@example("evil", "tool", "user")
@example("../../../outside/evil", "tool", "project")
@example("**", "tool", None)
def test_whatever_is_named_nothing_outside_of_a_space_is_read_or_written(
    world: Path, text: str, item_type: str, source: str | None
) -> None:
    spaces, home = spaces_of(world), world / "project/.ai"
    before = besides_items(world)
    items: list[Item] = []
    with suppress(CodedError):
        items.append(spaces.find(item_type, text, source))
    with suppress(CodedError):
        items += spaces.matching(item_type, text, source)
    forged = Item(item_type, text, ".md" if item_type != "tool" else ".py", spaces.of("project"))
    in_user = Item(item_type, text, forged.extension, spaces.of("user"))
    nowhere = Item(item_type, f"..{world}/outside/{text}", forged.extension, Space("user", ""))

    assert all(within(item.path, home) for item in items)

    for item in (*items, forged, in_user, nowhere):
        for exclusive in (True, False):
            with suppress(CodedError):
                assert OWN == read_item(item)
            try:
                write_item(item, OWN, exclusive=exclusive)
            except CodedError:
                continue
            assert within(item.path, home)
    assert before == besides_items(world)
