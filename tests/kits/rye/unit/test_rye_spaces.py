"""Items are found by id, first in the project, then the user space, then the system."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ralphgen.kits.rye.server.spaces import (
    FOLDERS,
    LARGEST,
    MOST_MATCHES,
    SOURCES,
    TYPES,
    Space,
    Spaces,
)
from ralphgen.runtime.errors import CodedError

PRIMITIVE = "rye/core/primitives/subprocess"
Lay = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the parent directory of the spaces."""
    return tmp_path.resolve()


@pytest.fixture
def spaces(root: Path) -> Spaces:
    project, user, system = (Space(name, str(root / name)) for name in SOURCES)
    return Spaces(project, user, system)


@pytest.fixture
def lay(root: Path) -> Lay:
    """Return a function that writes a file of a type to a space."""

    def laid(space: str, name: str, item_type: str = "tool", text: str = "x") -> Path:
        path = root / space / FOLDERS[item_type] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return laid


def refusal(spaces: Spaces, item_id: str, source: str | None = None) -> CodedError:
    """Return the error for a tool that cannot be found."""
    with pytest.raises(CodedError) as refused:
        spaces.find("tool", item_id, source)
    return refused.value


class TestIgnoredFiles:
    """If an id is not found, the error lists files of that name and why they are not items."""

    @pytest.mark.parametrize("category", ["", "demo/"])
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("hello.js", "a tool must end in .py or .yaml or .yml"),
            ("hello.sh", "a tool must end in .py or .yaml or .yml"),
            ("hello", "a tool must end in .py or .yaml or .yml"),
            ("Hello.py", 'its path may contain only lower-case letters, digits, "_" and "-"'),
        ],
    )
    def test_ignored_file_is_named_with_its_reason(
        self, spaces: Spaces, lay: Lay, category: str, name: str, why: str
    ) -> None:
        lay("project", f"{category}{name}")
        lay("project", f"{category}hello_too.js")
        lay("project", f"other/{name}")
        message = str(refusal(spaces, f"{category}hello"))

        told = f'"tools/{category}{name}" of the project space is not an item: {why}'
        assert message.endswith(f"spaces; {told}")

    def test_links_and_large_files_are_named(self, spaces: Spaces, lay: Lay) -> None:
        lay("user", "demo/long.py", text="x" * (LARGEST + 1))
        real = lay("user", "demo/real.py")
        real.with_name("link.py").symlink_to(real)
        real.with_name("dangling.py").symlink_to("nowhere")

        os.mkfifo(real.with_name("pipe.py"))

        assert str(refusal(spaces, "demo/pipe")).endswith(
            "is not an item: it is not a regular file"
        )
        assert f"larger than {LARGEST:,} bytes" in str(refusal(spaces, "demo/long"))
        for name in ("link", "dangling"):
            assert (
                f'"tools/demo/{name}.py" of the user space is not an item: symbolic links are not'
                in str(refusal(spaces, f"demo/{name}"))
            )

    def test_directories_and_files_behind_links_are_not_named(
        self, spaces: Spaces, lay: Lay
    ) -> None:
        file = lay("project", "deep/hello.js")
        (file.parent.parent / "linked").symlink_to("deep")
        (file.parent / "hello").mkdir()
        (file.parent.parent / "hello.d").mkdir()

        assert "is not an item" not in str(refusal(spaces, "linked/hello"))
        assert "is not an item" not in str(refusal(spaces, "hello"))
        assert 1 == str(refusal(spaces, "deep/hello")).count("is not an item")


class TestPrecedence:
    """The first space with an id takes precedence, and the others are reported."""

    @pytest.mark.parametrize("item_type", TYPES)
    def test_project_precedes_user_and_user_precedes_system(
        self, spaces: Spaces, lay: Lay, item_type: str
    ) -> None:
        extension = ".py" if item_type == "tool" else ".md"
        paths = {name: lay(name, f"demo/git{extension}", item_type) for name in SOURCES}
        for name in SOURCES:
            assert str(paths[name]) == spaces.find(item_type, "demo/git").path
            assert name == spaces.find(item_type, "demo/git").source
            paths[name].unlink()

    @pytest.mark.parametrize("source", SOURCES)
    def test_source_selects_the_space(self, spaces: Spaces, lay: Lay, source: str) -> None:
        for name in SOURCES:
            lay(name, "git.py")

        assert source == spaces.find("tool", "git", source).source

    def test_exact_id_precedes_a_stem_of_a_higher_space(self, spaces: Spaces, lay: Lay) -> None:
        lay("project", "demo/git.py")
        lay("system", "git.py")

        assert "system" == spaces.find("tool", "git").source

    def test_shadowed_and_shadowing_spaces_are_reported(self, spaces: Spaces, lay: Lay) -> None:
        for name in SOURCES:
            lay(name, "git.py")
        items = [spaces.find("tool", "git", name) for name in SOURCES]

        assert [["user", "system"], ["system"], []] == [spaces.shadows(item) for item in items]
        assert [None, "project", "project"] == [spaces.shadowed_by(item) for item in items]


class TestStems:
    """A bare stem is valid if it is unique in the first space that contains it."""

    def test_unique_stem_finds_its_item(self, spaces: Spaces, lay: Lay) -> None:
        lay("user", "very/deep/git.yaml")
        lay("system", "other/git.py")

        assert "very/deep/git" == spaces.find("tool", "git").id

    def test_ambiguous_stem_is_refused_with_the_ids(self, spaces: Spaces, lay: Lay) -> None:
        for name in ("b/git.py", "a/git.py", "a/git.yaml", "git2.py"):
            lay("project", name)
        lay("user", "c/git.py")
        error = refusal(spaces, "git")

        assert "AMBIGUOUS_ID" == error.code
        assert ["a/git", "b/git"] == error.facts["candidates"]
        assert "c/git" == spaces.find("tool", "git", "user").id

    def test_stem_with_a_directory_is_not_found(self, spaces: Spaces, lay: Lay) -> None:
        lay("project", "a/demo/git.py")

        assert "ITEM_NOT_FOUND" == refusal(spaces, "demo/git").code


class TestNotFound:
    """The error for a missing item lists the searched spaces and similar ids."""

    def test_error_names_the_searched_spaces_and_similar_ids(
        self, spaces: Spaces, lay: Lay, root: Path
    ) -> None:
        lay("project", "demo/commit_all.py")
        lay("user", "other/commit_all.py")
        error = refusal(spaces, "demo/comit_all")

        assert "ITEM_NOT_FOUND" == error.code
        assert {
            "item_type": "tool",
            "item_id": "demo/comit_all",
            "searched": ["project", "user", "system"],
            "suggestions": ["demo/commit_all", "other/commit_all"],
        } == error.facts
        assert str(error).endswith('did you mean "demo/commit_all"?')
        assert str(root) not in str(error)

    def test_error_names_another_space_that_has_the_item(self, spaces: Spaces, lay: Lay) -> None:
        lay("system", "demo/git.py")
        error = refusal(spaces, "demo/git", "user")

        assert ["user"] == error.facts["searched"]
        assert 'no tool "demo/git" in the user space, but in the system space' == str(error)

    def test_missing_user_space_is_not_searched(self, root: Path, lay: Lay) -> None:
        lay("system", "git.py")
        spaces = Spaces(
            Space("project", str(root / "project")),
            Space("user", ""),
            Space("system", str(root / "system")),
        )

        assert "system" == spaces.find("tool", "git").source
        assert ["project", "system"] == refusal(spaces, "none").facts["searched"]
        assert [] == refusal(spaces, "git", "user").facts["searched"]


class TestReserved:
    """Other spaces cannot replace reserved tools of the system."""

    @pytest.mark.parametrize("space", ["project", "user"])
    def test_tool_under_a_reserved_id_is_not_an_item(
        self, spaces: Spaces, lay: Lay, space: str
    ) -> None:
        lay(space, f"{PRIMITIVE}.yaml")

        assert [] == spaces.matching("tool", "rye/**")
        assert "ITEM_NOT_FOUND" == refusal(spaces, PRIMITIVE).code
        assert "ITEM_NOT_FOUND" == refusal(spaces, "subprocess").code

        lay("system", f"{PRIMITIVE}.yaml")
        found = spaces.find("tool", PRIMITIVE)

        assert "system" == found.source
        assert None is spaces.shadowed_by(found)
        with pytest.raises(CodedError) as refused:
            spaces.target(found, space)

        assert "READ_ONLY_SPACE" == refused.value.code

    def test_knowledge_under_a_reserved_id_is_an_item(self, spaces: Spaces, lay: Lay) -> None:
        lay("project", "rye/core/x.md", "knowledge")

        assert "project" == spaces.find("knowledge", "rye/core/x").source


class TestExecutors:
    """The executor of a tool comes from the tool's space or a lower one."""

    @pytest.mark.parametrize(
        ("space", "expected"), [("project", "project"), ("user", "user"), ("system", "system")]
    )
    def test_executor_is_searched_from_the_tools_space_downwards(
        self, spaces: Spaces, lay: Lay, space: str, expected: str
    ) -> None:
        for name in SOURCES:
            lay(name, "demo/run.yaml")

        assert expected == spaces.executor("demo/run", spaces.of(space)).source

    @pytest.mark.parametrize(
        ("owner", "space"), [("project", "user"), ("project", "system"), ("user", "system")]
    )
    def test_executor_never_comes_from_a_higher_space(
        self, spaces: Spaces, lay: Lay, owner: str, space: str
    ) -> None:
        lay(owner, "demo/run.yaml")
        for executor_id in ("demo/run", "run"):
            with pytest.raises(CodedError) as refused:
                spaces.executor(executor_id, spaces.of(space))

            assert "EXECUTOR_NOT_FOUND" == refused.value.code
            assert owner not in refused.value.facts["searched"]

    @pytest.mark.parametrize("executor_id", ["", "../x", "/bin/sh", "sh -c", "a.py"])
    def test_invalid_id_is_not_an_executor(self, spaces: Spaces, executor_id: str) -> None:
        with pytest.raises(CodedError) as refused:
            spaces.executor(executor_id, spaces.of("project"))

        assert "EXECUTOR_NOT_FOUND" == refused.value.code

    @pytest.mark.parametrize(
        ("name", "item_id"),
        [
            ("subprocess", PRIMITIVE),
            ("http_client", "rye/core/primitives/http_client"),
            ("python_runtime", "rye/core/runtimes/python_runtime"),
        ],
    )
    def test_bare_names_of_executors_mean_system_tools(
        self, spaces: Spaces, lay: Lay, name: str, item_id: str
    ) -> None:
        lay("project", f"{name}.yaml")
        lay("user", f"demo/{name}.yaml")
        lay("system", f"{item_id}.yaml")
        found = spaces.executor(name, spaces.of("project"))

        assert ("system", item_id) == (found.source, found.id)


class TestListing:
    """A listing contains every item once, in order, and no other files."""

    def test_only_items_are_listed(self, spaces: Spaces, lay: Lay, root: Path) -> None:
        for name in ("b.py", "a/b.yaml", "a/b/c.yml", "a-b.py"):
            lay("project", name)
        for name in ("_x.py", ".x.py", "X.py", "x.md", "x.json", "x", "a.b.py", "_y/x.py"):
            lay("project", name)
        for name in ("__pycache__/x.py", ".git/x.py", f"{'z' * 65}/x.py", f"{'z/' * 127}zz.py"):
            lay("project", name)
        lay("project", "long.py", text="x" * (LARGEST + 1))
        lay("project", ".b.py.17-0a.tmp")
        tools = root / "project/tools"
        (tools / "linked.py").symlink_to("b.py")
        (tools / "folder").symlink_to("a")
        (tools / "dangling.py").symlink_to("nothing.py")
        (tools / "folder.py").mkdir()
        os.mkfifo(tools / "pipe.py")
        ids = ["a-b", "a/b", "a/b/c", "b"]

        assert ids == [item.id for item in spaces.matching("tool", "**")]
        for name in ("linked", "folder/b", "dangling", "folder", "pipe", "long", "x"):
            assert "ITEM_NOT_FOUND" == refusal(spaces, name).code

    @pytest.mark.parametrize("linked", ["project", "project/tools", "project/tools/demo"])
    def test_file_behind_a_link_is_not_an_item(
        self, spaces: Spaces, lay: Lay, root: Path, linked: str
    ) -> None:
        lay("project", "demo/git.py")
        moved = root / "moved"
        shutil.move(root / linked, moved)
        (root / linked).symlink_to(moved)

        assert [] == spaces.matching("tool", "**")
        assert "ITEM_NOT_FOUND" == refusal(spaces, "demo/git").code
        assert "ITEM_NOT_FOUND" == refusal(spaces, "git").code

    def test_pattern_with_too_many_matches_is_refused(self, spaces: Spaces, lay: Lay) -> None:
        for number in range(MOST_MATCHES):
            lay("project", f"a{number}.py")

        assert MOST_MATCHES == len(spaces.matching("tool", "*"))
        lay("project", "b.py")
        with pytest.raises(CodedError, match="1,001 items, more than 1,000"):
            spaces.matching("tool", "*")
        assert MOST_MATCHES == len(spaces.matching("tool", "a*"))
