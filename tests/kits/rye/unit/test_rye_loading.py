"""Loading: reading an item with its metadata and trust, or copying it byte for byte."""

import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import snapshot
from rye_projects import EXTENSIONS, FOLDERS, INTERNALS, directive, knowledge, put, well_formed

from ralphgen.kits.rye.server.loading import load
from ralphgen.kits.rye.server.spaces import TYPES
from ralphgen.kits.rye.server.workspace import Rye, open_workspace
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.policy import WHOLE, Grants
from ralphgen.runtime.session import Session
from ralphgen.runtime.values import MAX_CHARACTERS, size

SETTINGS = {"policy": {"directive": "trusted", "tool": "trusted", "knowledge": "trusted"}}
Load = Callable[..., dict[str, Any]]


class Everything(Session):
    """A session with these tools and without some of their arguments."""

    def __init__(self, tools: Sequence[str], without: Sequence[str] = ()) -> None:
        self.grants = Grants("", dict.fromkeys(tools, WHOLE))
        self.project = None
        self._without = without

    def leaves(self, _tool: str, argument: str) -> bool:
        return argument not in self._without


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a project and a user space."""
    root = tmp_path.resolve()
    monkeypatch.setenv("USER_SPACE", str(root / "user"))
    (root / "project/.ralph/mcp").mkdir(parents=True)
    return root


def workspace(root: Path, *, without: Sequence[str] = ()) -> Rye:
    session = Everything(("load", "search"), without)
    return open_workspace(str(root / "project/.ralph/mcp"), session, SETTINGS, ())


def place(root: Path, space: str, item_type: str, item_id: str) -> Path:
    """Return the path of an item's file."""
    spaces = {
        "project": root / "project/.ai",
        "user": root / "user/.ai",
        "system": root / "project/.ralph/mcp/rye/system",
    }
    return spaces[space] / FOLDERS[item_type] / f"{item_id}{EXTENSIONS[item_type]}"


def lay(root: Path, space: str, item_type: str, item_id: str, text: str | bytes = "") -> Path:
    """Write an item, well-formed by default, and return its path."""
    return put(place(root, space, item_type, item_id), text or well_formed(item_type, item_id))


@pytest.fixture
def loaded(root: Path) -> Load:
    """Return a function that loads an item of the project, by default a tool."""
    rye = workspace(root)

    def load_it(item_id: str, item_type: str = "tool", **arguments: Any) -> dict[str, Any]:
        given = {"item_type": item_type, "item_id": item_id, "project_path": f"{root}/project"}
        answer = load(rye, {**given, **arguments})
        assert size(answer) <= MAX_CHARACTERS
        return answer

    return load_it


def refusal(loaded: Load, *names: str, **arguments: Any) -> CodedError:
    """Return the error of a load that must fail, without internals in its text."""
    with pytest.raises(CodedError) as refused:
        loaded(*names, **arguments)

    told = f"{refused.value} {json.dumps(refused.value.facts)}"
    assert [] == [word for word in INTERNALS if word in told]
    return refused.value


class TestReading:
    """An answer contains the text, its metadata and its trust."""

    @pytest.mark.parametrize("item_type", TYPES)
    def test_item_is_shown_unchanged(self, root: Path, loaded: Load, item_type: str) -> None:
        path = lay(root, "project", item_type, "demo/greet")
        found = loaded("demo/greet", item_type)

        assert {
            "status": "success",
            "item_type": item_type,
            "item_id": "demo/greet",
            "source": "project",
            "path": str(path),
            "content": path.read_text(encoding="utf-8"),
        }.items() <= found.items()
        assert {"version": "1.0.0", "category": "demo"}.items() <= found["metadata"].items()
        assert "unsigned" == found["signature"]["state"]
        assert not {"shadows", "shadowed_by", "cut", "copied_to", "noop"} & found.keys()

    @pytest.mark.parametrize("item_type", TYPES)
    def test_unparsable_item_is_shown_with_its_problems(
        self, root: Path, loaded: Load, item_type: str
    ) -> None:
        text = "def (\r\n---\nnothing <\n"
        lay(root, "project", item_type, "broken", text)
        found = loaded("broken", item_type)

        assert text == found["content"]
        assert [] != found["metadata"]["problems"]

    @pytest.mark.parametrize("text", ["\ufeffx = 1\r\n", "#!/bin/python\r\n# é\r\n", "\n", "a\rb"])
    def test_byte_order_mark_and_line_ends_are_kept(
        self, root: Path, loaded: Load, text: str
    ) -> None:
        lay(root, "project", "tool", "odd", text)

        assert text == loaded("odd")["content"]

    def test_load_reports_shadowed_items(self, root: Path, loaded: Load) -> None:
        for space in ("system", "user", "project"):
            lay(root, space, "tool", "demo/git")
        first, pinned = loaded("demo/git"), loaded("demo/git", source="system")

        assert ("project", ["user", "system"]) == (first["source"], first["shadows"])
        assert ("system", "project") == (pinned["source"], pinned["shadowed_by"])
        assert "shadowed_by" not in first
        assert "shadows" not in pinned

    def test_bare_stem_is_answered_with_the_whole_id(self, root: Path, loaded: Load) -> None:
        lay(root, "user", "tool", "very/deep/git")

        assert "very/deep/git" == loaded("git")["item_id"]

    @pytest.mark.parametrize("character", ["x", "\n", '"', "\x01", "é", "🙂"])
    def test_long_text_is_cut_to_the_size_of_an_answer(
        self, root: Path, loaded: Load, character: str
    ) -> None:
        body = character * 50_000
        path = lay(root, "project", "knowledge", "long", knowledge("long", body))
        found = loaded("long", "knowledge")
        text = path.read_bytes().decode()

        assert len(text) == found["total_characters"]
        assert "content" in found["cut"]
        assert text.startswith(found["content"])
        assert MAX_CHARACTERS - 200 < size(found) <= MAX_CHARACTERS

    def test_long_metadata_leaves_room_for_the_text(self, root: Path, loaded: Load) -> None:
        inputs = "".join(
            f'<input name="i{number}" type="string" required="true">{"y" * 200}</input>'
            for number in range(300)
        )
        text = directive("wide", inputs=f"<inputs>{inputs}</inputs>")
        lay(root, "project", "directive", "wide", text)
        found = loaded("wide", "directive")

        assert ["content", "metadata"] == sorted({name.partition(".")[0] for name in found["cut"]})
        assert len(found["content"]) > 25_000

    def test_missing_item_suggests_similar_ids(self, root: Path, loaded: Load) -> None:
        lay(root, "user", "tool", "demo/greet")
        error = refusal(loaded, "demo/great")

        assert "ITEM_NOT_FOUND" == error.code
        assert ["demo/greet"] == error.facts["suggestions"]
        assert ["project", "user", "system"] == error.facts["searched"]

    def test_ambiguous_stem_lists_the_candidates(self, root: Path, loaded: Load) -> None:
        for item_id in ("a/git", "b/git"):
            lay(root, "project", "tool", item_id)
        error = refusal(loaded, "git")

        assert ("AMBIGUOUS_ID", ["a/git", "b/git"]) == (error.code, error.facts["candidates"])


class TestCopying:
    """A copy has the same bytes and id as the item, and overwrites nothing."""

    @pytest.mark.parametrize("text", ["\ufeffx\r\ny", "", "a\0\r", "é" * 100_000])
    def test_unusual_and_long_texts_are_copied_unchanged(
        self, root: Path, loaded: Load, text: str
    ) -> None:
        lay(root, "project", "tool", "odd").write_bytes(text.encode())
        loaded("odd", destination="user")

        assert text.encode() == place(root, "user", "tool", "odd").read_bytes()

    def test_copy_to_the_same_space_writes_nothing(self, root: Path, loaded: Load) -> None:
        lay(root, "project", "tool", "greet")
        before = snapshot(root)
        found = loaded("greet", destination="project", overwrite=True)

        assert "it is already in the project space: nothing was written" == found["noop"]
        assert "copied_to" not in found
        assert before == snapshot(root)

    def test_copy_overwrites_only_on_request(self, root: Path, loaded: Load) -> None:
        path = lay(root, "project", "tool", "greet")
        copy = lay(root, "user", "tool", "greet", "x = 1\n")
        copy.chmod(0o600)
        error = refusal(loaded, "greet", destination="user")

        assert "EXISTS" == error.code
        assert str(error).endswith('already exists: set "overwrite" to replace it')
        assert b"x = 1\n" == copy.read_bytes()

        loaded("greet", destination="user", overwrite=True)

        assert path.read_bytes() == copy.read_bytes()
        assert 0o600 == stat.S_IMODE(copy.stat().st_mode)

    def test_error_does_not_mention_missing_arguments(self, root: Path) -> None:
        rye = workspace(root, without=("overwrite",))
        lay(root, "project", "tool", "greet")
        lay(root, "user", "tool", "greet")
        arguments = {"item_type": "tool", "item_id": "greet", "project_path": f"{root}/project"}
        with pytest.raises(CodedError, match=r"already exists$"):
            load(rye, {**arguments, "destination": "user"})

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_copy_never_creates_two_files_of_one_id(
        self, root: Path, loaded: Load, overwrite: bool
    ) -> None:
        lay(root, "project", "tool", "greet")
        put(root / "user/.ai/tools/greet.yaml", "x: 1\n")
        error = refusal(loaded, "greet", destination="user", overwrite=overwrite)

        assert "EXISTS" == error.code
        assert not place(root, "user", "tool", "greet").exists()

    def test_unreadable_text_is_not_copied(self, root: Path, loaded: Load) -> None:
        lay(root, "project", "tool", "greet", b"\xff")

        assert "PARSING_ERROR" == refusal(loaded, "greet", destination="user").code
        assert not (root / "user").exists()

    def test_reserved_tool_is_not_copied(self, root: Path, loaded: Load) -> None:
        lay(root, "system", "tool", "rye/core/primitives/x")
        error = refusal(loaded, "rye/core/primitives/x", destination="project")

        assert "READ_ONLY_SPACE" == error.code
        assert not (root / "project/.ai").exists()

    def test_user_space_within_the_project_is_ignored(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("USER_SPACE", str(root / "project/home"))
        lay(root, "project", "tool", "greet")
        arguments = {"item_type": "tool", "item_id": "greet", "project_path": f"{root}/project"}
        with pytest.raises(CodedError, match="set USER_SPACE to a directory") as refused:
            load(workspace(root), {**arguments, "destination": "user"})

        assert "READ_ONLY_SPACE" == refused.value.code
        assert not (root / "project/home").exists()

    @pytest.mark.parametrize("linked", ["user/.ai/tools", "user/.ai/tools/demo"])
    def test_copy_does_not_follow_links(self, root: Path, loaded: Load, linked: str) -> None:
        lay(root, "project", "tool", "demo/greet")
        (root / "outside").mkdir()
        (root / linked).parent.mkdir(parents=True)
        (root / linked).symlink_to(root / "outside")
        error = refusal(loaded, "demo/greet", destination="user", overwrite=True)

        assert "SPACE_VIOLATION" == error.code
        assert [] == [*(root / "outside").iterdir()]
