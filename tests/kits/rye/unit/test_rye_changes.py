"""Searches reflect every change to the items immediately."""

import os
import time

import pytest
from lifelines import until
from rye_searching import put, search_ids
from rye_workspaces import Workspace

from ralphgen.kits.rye.server.search_index import Watch
from ralphgen.kits.rye.server.spaces import LARGEST, Space


def settled(workspace: Workspace, item_type: str = "knowledge") -> Watch:
    """Return the project's watcher, once the clock has advanced past the last change."""
    watch = Watch(item_type, Space("project", str(workspace.root / ".ai")))
    assert until(lambda: not [*watch.changes()])
    return watch


def like(status: os.stat_result) -> tuple[int, int, int]:
    """Return the facts that a hidden change preserves: inode, size and modification time."""
    return status.st_ino, status.st_size, status.st_mtime_ns


class TestChanges:
    """The next search reflects each change."""

    def test_a_change_in_place_that_leaves_size_and_times_as_they_were(
        self, workspace: Workspace
    ) -> None:
        file = put(workspace, "one", "a needle")
        watch = settled(workspace)
        status, around = file.stat(), file.parent.stat()
        with file.open("r+b") as stream:
            data = stream.read().replace(b"needle", b"pinpin")
            stream.seek(0)
            stream.write(data)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

        assert [data.decode()] == [change.text for change in watch.changes()]
        assert around.st_mtime_ns == file.parent.stat().st_mtime_ns
        assert like(status) == like(file.stat())

    def test_changes_faster_than_the_clock_for_files_are_all_seen(
        self, workspace: Workspace
    ) -> None:
        file = put(workspace, "one", "words")
        watch = Watch("knowledge", Space("project", str(workspace.root / ".ai")))
        for number in range(1000, 2000):
            file.write_text(f"word{number}", encoding="utf-8")

            assert [f"word{number}"] == [change.text for change in watch.changes()]

    def test_what_was_changed_a_moment_ago_or_later_than_now_is_read_once_more(
        self, workspace: Workspace
    ) -> None:
        """On most systems, two changes within one clock step have the same times."""
        file = put(workspace, "one", "words")
        watch = settled(workspace)
        later = time.time() + 3600
        os.utime(file, (later, later))

        assert ["one"] == [change.id for change in watch.changes()]
        assert ["one"] == [change.id for change in watch.changes()]

    @pytest.mark.slow
    def test_new_files_faster_than_that_are_all_seen(self, workspace: Workspace) -> None:
        watch = Watch("knowledge", Space("project", str(workspace.root / ".ai")))
        for number in range(300):
            put(workspace, f"n{number}", "words")

            assert f"n{number}" in {change.id for change in watch.changes()}

    def test_replacement_of_a_file_is_seen(self, workspace: Workspace) -> None:
        one, two = put(workspace, "one", "a needle"), put(workspace, "two", "a pin")
        assert ["one"] == search_ids(workspace, "needle")
        two.replace(one)

        assert [] == search_ids(workspace, "needle")
        assert ["one"] == search_ids(workspace, "pin")

    def test_moved_removed_and_restored_directories_are_seen(self, workspace: Workspace) -> None:
        folder = put(workspace, "a/b/one", "a needle").parents[1]
        assert ["a/b/one"] == search_ids(workspace, "needle")
        folder.rename(folder.with_name("c"))
        assert ["c/b/one"] == search_ids(workspace, "needle")
        folder.with_name("c").rename(workspace.root / "elsewhere")
        assert [] == search_ids(workspace, "needle")
        (workspace.root / "elsewhere").rename(folder)
        assert ["a/b/one"] == search_ids(workspace, "needle")
        (workspace.root / ".ai").rename(workspace.root / "away")
        assert [] == search_ids(workspace, "needle")
        (workspace.root / "away").rename(workspace.root / ".ai")
        assert ["a/b/one"] == search_ids(workspace, "needle")

    def test_file_is_read_once_it_becomes_readable(self, workspace: Workspace) -> None:
        file = put(workspace, "one", "a needle")
        file.write_bytes(b"needle \xff")
        assert [] == search_ids(workspace, "needle")
        file.write_bytes(b"needle")
        assert ["one"] == search_ids(workspace, "needle")

    def test_an_item_of_another_extension_takes_the_place_of_one_that_goes(
        self, workspace: Workspace
    ) -> None:
        ends = (".py", ".yaml", ".yml")
        texts = ('"""first"""', "description: second", "description: third")
        files = [
            workspace.put("tool", "one", text, extension=end)
            for text, end in zip(texts, ends, strict=True)
        ]
        words = ("first", "second", "third")
        assert [["one"], [], []] == [search_ids(workspace, word) for word in words]
        files[0].unlink()
        assert [[], ["one"], []] == [search_ids(workspace, word) for word in words]
        files[1].write_text("x" * (LARGEST + 1), encoding="utf-8")
        assert [[], [], ["one"]] == [search_ids(workspace, word) for word in words]
        files[0].write_text("# first", encoding="utf-8")
        assert [["one"], [], []] == [search_ids(workspace, word) for word in words]

    def test_the_next_extension_is_read_where_nothing_else_was_changed(
        self, workspace: Workspace
    ) -> None:
        files = [
            workspace.put("tool", "one", f"# {end}", extension=end) for end in (".py", ".yaml")
        ]
        watch = settled(workspace, "tool")
        files[0].unlink()

        assert ["# .yaml"] == [change.text for change in watch.changes()]

    def test_only_changed_files_are_read_again(self, workspace: Workspace) -> None:
        files = [put(workspace, f"a/n{number}", "words") for number in range(5)]
        watch = settled(workspace)
        files[3].write_text("other words", encoding="utf-8")
        files[4].unlink()
        (files[4].parent / "b").mkdir()
        for name in ("b/n6.md", "n7.md"):
            (files[4].parent / name).write_text("new words", encoding="utf-8")
        changes = {change.id: change.text for change in watch.changes()}
        new = {"a/b/n6": "new words", "a/n7": "new words"}

        assert {"a/n3": "other words", "a/n4": None, **new} == changes
