"""Files are read without waiting, as far as they may be, and in their folder only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralphgen.runtime.files import (
    NotAFileError,
    has_links,
    is_within,
    open_file,
    path_within,
    read_file,
    reason,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder by its real path, with a file next to it."""
    (tmp_path / "secret").write_text("what nobody may see", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def opened() -> int:
    """Return the number of descriptors of the process."""
    return len([*Path("/proc/self/fd").iterdir()])


class TestReading:
    """Only the beginning of a regular file is read, for anything at its path."""

    @pytest.mark.parametrize("most", [0, 1, 4, 5, 6, 100])
    def test_it_is_the_first_bytes_and_the_size(self, folder: Path, most: int) -> None:
        (folder / "a").write_bytes(b"\xef\xbb\xbfa\n")

        assert (b"\xef\xbb\xbfa\n"[:most], 5) == read_file(str(folder / "a"), most)

    def test_an_empty_file_is_empty(self, folder: Path) -> None:
        (folder / "a").touch()

        assert (b"", 0) == read_file(str(folder / "a"), 10)

    def test_a_file_with_size_zero_is_read_to_the_end(self) -> None:
        """Files in /proc have size 0, and others may grow while they are read."""
        data, size = read_file("/proc/self/mountinfo", 1 << 20)

        assert data
        assert len(data) == size
        assert (data[:10], 10) == read_file("/proc/self/mountinfo", 10)

    @pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link to a pipe"])
    def test_special_files_are_refused_at_once(self, folder: Path, kind: str) -> None:
        path = folder / "a"
        if kind == "folder":
            path.mkdir()
        elif kind == "device":
            path = Path(os.devnull)
        else:
            os.mkfifo(folder / "pipe")
            path.symlink_to("pipe")
        before = opened()
        with pytest.raises(NotAFileError) as caught:
            read_file(str(path), 10)

        assert ("is a directory" if kind == "folder" else "not a regular file") == reason(
            caught.value
        )
        assert before == opened()

    def test_missing_files_are_not_found(self, folder: Path) -> None:
        with pytest.raises(FileNotFoundError) as caught:
            read_file(str(folder / "a"), 10)

        assert "no such file or directory" == reason(caught.value)

    def test_a_link_is_followed_only_on_request(self, folder: Path) -> None:
        (folder / "link").symlink_to("../secret")

        assert b"what" == read_file(str(folder / "link"), 4)[0]
        with pytest.raises(OSError, match="symbolic"):
            read_file(str(folder / "link"), 4, links=False)

    def test_a_relative_path_starts_at_the_descriptor(self, folder: Path) -> None:
        (folder / "a").write_text("here", encoding="utf-8")
        place = os.open(folder, os.O_RDONLY)
        try:
            found = read_file("a", 10, folder=place)
            file = open_file("a", folder=place)
            inherited = os.get_inheritable(file)
            os.close(file)
        finally:
            os.close(place)

        assert (b"here", 4) == found
        assert not inherited


class TestPlaces:
    """Whether a file is inside a folder depends on its real location."""

    @pytest.mark.parametrize("name", ["a", "a/b", "a/../b", ".", "", "link-in", "link-in/x", "..a"])
    def test_a_path_within(self, folder: Path, name: str) -> None:
        (folder / "real").mkdir()
        (folder / "link-in").symlink_to("real")

        assert os.path.realpath(folder / name) == path_within(str(folder), name)

    @pytest.mark.parametrize(
        "name", ["..", "../folder2", "a/../../secret", "/", "link", "link/x", "up/secret"]
    )
    def test_a_path_that_leads_out(self, folder: Path, name: str) -> None:
        (folder / "link").symlink_to("../secret")
        (folder / "up").symlink_to("..")

        assert None is path_within(str(folder), name)

    def test_no_path_has_such_characters(self, folder: Path) -> None:
        with pytest.raises(ValueError, match="null"):
            path_within(str(folder), "a\0b")

    def test_a_longer_name_is_another_folder(self) -> None:
        assert is_within("/a/b", "/a")
        assert is_within("/a", "/a")
        assert is_within("/a", "/")
        assert not is_within("/ab", "/a")
        assert not is_within("/", "/a")

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("real", False),
            ("real/x", False),
            ("real/../gone", False),
            ("link", True),
            ("link/x", True),
            ("dangling", True),
        ],
    )
    def test_a_link_anywhere_on_the_path_is_seen(
        self, folder: Path, name: str, expected: bool
    ) -> None:
        (folder / "real").mkdir()
        (folder / "link").symlink_to("real")
        (folder / "dangling").symlink_to("gone")

        assert expected is has_links(f"{os.path.realpath(folder)}/{name}")
