"""The search index: which files it contains, its spaces and its private database."""

import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from rye_searching import put, search_ids
from rye_workspaces import Workspace, opened
from waiting import reading_requests

from ralphgen.kits.rye.server import search_index as index
from ralphgen.kits.rye.server.search_index import MOST_TABLES
from ralphgen.kits.rye.server.spaces import LARGEST
from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.errors import CodedError, DeferError


def open_files() -> list[str]:
    """Return the targets of this process's open file descriptors (Linux only)."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this listing
            names.append(str(descriptor.readlink()))
    return names


class TestWhatIsNoItem:
    """Files that no tool would read are not found either."""

    @pytest.mark.parametrize(
        "name",
        [
            "_one.md",
            ".one.md",
            "__pycache__/one.md",
            "_a/one.md",
            ".a/one.md",
            "One.md",
            "one two.md",
            "one.txt",
            "one.md.bak",
            "one",
            f"{'a' * 65}.md",
            "/".join(["a" * 60] * 5) + ".md",
        ],
    )
    def test_file_without_an_id_is_not_found(self, workspace: Workspace, name: str) -> None:
        put(workspace, "two", "a needle")
        file = workspace.root / ".ai/knowledge" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a needle", encoding="utf-8")

        assert ["two"] == search_ids(workspace, "needle")

    @pytest.mark.parametrize(
        "data", [b"needle \xff", b"needle" + b" " * LARGEST], ids=["no UTF-8", "too long"]
    )
    def test_file_that_is_not_text_or_too_long_is_not_searched(
        self, workspace: Workspace, data: bytes
    ) -> None:
        put(workspace, "one", "x").write_bytes(data)

        assert [] == search_ids(workspace, "needle")

    def test_file_of_the_maximum_size_is_searched(self, workspace: Workspace) -> None:
        put(workspace, "one", "x").write_bytes(b"needle".ljust(LARGEST))

        assert ["one"] == search_ids(workspace, "needle")

    @pytest.mark.parametrize("inside", [False, True])
    def test_links_are_not_searched(self, workspace: Workspace, *, inside: bool) -> None:
        folder = put(workspace, "two", "a pin").parent
        target = (folder if inside else workspace.root) / "real"
        target.mkdir()
        (target / "one.md").write_text("a needle", encoding="utf-8")
        (folder / "three.md").symlink_to(target / "one.md")
        (folder / "four").symlink_to(target)
        (folder / "five").symlink_to(folder)

        assert (["real/one"] if inside else []) == search_ids(workspace, "needle")

    def test_space_behind_a_link_is_not_searched(self, workspace: Workspace) -> None:
        put(workspace, "one", "a needle")
        (workspace.root / ".ai").rename(workspace.root / "real")
        (workspace.root / ".ai").symlink_to("real")

        assert [] == search_ids(workspace, "needle")

    def test_pipe_does_not_block_a_search(self, workspace: Workspace) -> None:
        file = put(workspace, "one", "a needle")
        assert ["one"] == search_ids(workspace, "needle")
        file.unlink()
        os.mkfifo(file)

        assert [] == search_ids(workspace, "needle")

    def test_reserved_tools_of_other_spaces_are_not_found(self, workspace: Workspace) -> None:
        for space in ("project", "user"):
            workspace.put("tool", "rye/core/own", '"""needle"""', space=space)
        workspace.put("tool", "rye/own", '"""needle"""')
        workspace.put("knowledge", "rye/core/own", "needle")

        assert ["rye/own", "rye/core/own"] == search_ids(workspace, "needle", source="all")


class TestSpaces:
    """A search reads only the requested project, spaces and types."""

    def test_projects_do_not_see_each_other(self, workspace: Workspace) -> None:
        put(workspace, "one", "a needle")
        inner = workspace.root / "packages/inner"
        (inner / ".ai/knowledge").mkdir(parents=True)
        (inner / ".ai/knowledge/two.md").write_text("a needle", encoding="utf-8")

        assert ["one"] == search_ids(workspace, "needle")
        assert ["two"] == search_ids(workspace, "needle", project_path=str(inner))
        assert ["one"] == search_ids(workspace, "needle")

    def test_a_project_without_items_still_finds_those_of_the_system(
        self, workspace: Workspace
    ) -> None:
        empty = workspace.root / "empty"
        empty.mkdir()

        assert [] == search_ids(workspace, "", project_path=str(empty))
        assert "rye/create_tool" in search_ids(
            workspace, "create", project_path=str(empty), source="all"
        )

    def test_a_user_space_within_the_project_has_no_items(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A repository could contain such a space."""
        with opened(tmp_path):
            monkeypatch.setenv("USER_SPACE", str(tmp_path / "project/.ai"))
            workspace = Workspace(tmp_path)
            put(workspace, "one", "a needle")

            assert [] == search_ids(workspace, "needle", source="user")
            workspace.rye.close()

    def test_more_projects_than_are_kept_are_all_found(self, workspace: Workspace) -> None:
        folders = [workspace.root / f"p{number}" for number in range(MOST_TABLES + 2)]
        for folder in folders:
            (folder / ".ai/knowledge").mkdir(parents=True)
            (folder / f".ai/knowledge/{folder.name}.md").write_text("needle", encoding="utf-8")
        for folder in [*folders, *folders]:
            assert [folder.name] == search_ids(workspace, "needle", project_path=str(folder))


class TestTheDatabase:
    """It is private and created on first use, and its errors have readable messages."""

    def test_what_takes_long_is_left_to_who_has_the_time_and_goes_on_from_there(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(3):
            put(workspace, f"n{number}", "needle")
        monkeypatch.setattr(index, "LONG", 0.0)
        for _ in range(3):
            with reading_requests(), pytest.raises(DeferError):
                search_ids(workspace, "needle")

        assert ["n0", "n1", "n2"] == search_ids(workspace, "needle")

    def test_what_was_read_in_part_may_change_before_the_rest_is_read(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = [put(workspace, f"n{number}", "needle") for number in range(3)]
        monkeypatch.setattr(index, "LONG", 0.0)
        for _ in files:
            with reading_requests(), pytest.raises(DeferError):
                search_ids(workspace, "needle")
        put(workspace, "n0", "hay")
        put(workspace, "n1", "another needle")
        files[2].unlink()

        assert ["n1"] == search_ids(workspace, "needle")
        assert ["n0"] == search_ids(workspace, "hay")

    @pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc")
    def test_index_file_has_no_name(self, workspace: Workspace) -> None:
        for number in range(50):
            put(workspace, f"n{number}", "needle " * 20_000)
        search_ids(workspace, "needle")
        named = [name for name in open_files() if "etilqs" in name]

        assert named
        assert [] == [name for name in named if not name.endswith(" (deleted)")]

    @pytest.mark.slow
    def test_missing_full_text_search_is_reported(self) -> None:
        """Such builds are rare, so the test makes SQLite raise the same error."""
        script = """
import _sqlite3

class Connection(_sqlite3.Connection):
    def execute(self, sql, *values):
        if "USING fts5" in sql:
            raise _sqlite3.OperationalError("no such module: fts5")
        return super().execute(sql, *values)

connect = _sqlite3.connect
_sqlite3.connect = lambda *given, **named: connect(*given, factory=Connection, **named)

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.errors import CodedError
from ralphgen.kits.rye.server.search_index import Index

try:
    Index().search([], list, list)
except CodedError as error:
    print(error.code, error)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )

        assert done.stdout.startswith("EXECUTION_FAILED search requires SQLite with FTS5")

    def test_after_a_failure_the_next_search_makes_a_new_index(self, workspace: Workspace) -> None:
        put(workspace, "one", "a needle")
        search_ids(workspace, "needle")

        def fail(_: object) -> None:
            raise sqlite3.OperationalError("database disk image is malformed")

        with pytest.raises(CodedError, match="is damaged: search again"):
            workspace.rye.index().search([], fail, take_time)
        assert ["one"] == search_ids(workspace, "needle")

    def test_index_can_be_closed_twice_and_before_its_first_use(self, workspace: Workspace) -> None:
        workspace.rye.index().close()
        put(workspace, "one", "a needle")
        assert ["one"] == search_ids(workspace, "needle")
        workspace.rye.index().close()
        workspace.rye.index().close()
