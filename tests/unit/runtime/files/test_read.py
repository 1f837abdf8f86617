"""Reading and writing files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import script_output

from ralphgen.runtime.files import (
    NotAFileError,
    create_folder,
    has_links,
    is_within,
    open_file,
    path_within,
    read_file,
    reason,
    replace_file,
    write_new,
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


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


NOBODY = 65534
# Runs in a separate process, whose files may have ten bytes, and which is not root's.
LIMITED = """
import os, resource, sys
from ralphgen.runtime.files import create_folder, replace_file, write_new
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
if not os.getuid():
    os.setgid(65534)
    os.setuid(65534)
os.chdir(sys.argv[1])
try:
    exec(sys.argv[2])
except OSError as error:
    print(error.strerror.lower())
"""


@pytest.fixture
def anyones() -> Iterator[Path]:
    """A folder of an unprivileged user with the file "a"."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "a").write_text("old", encoding="utf-8")
        if not os.getuid():
            for path in (folder, folder / "a"):
                os.chown(path, NOBODY, NOBODY)
        yield folder


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def noting(order: list[str], function: Callable[..., None]) -> Callable[..., None]:
    """A function that does the same and notes that it was called."""

    def noted(*given: object, **more: object) -> None:
        order.append(function.__name__)
        function(*given, **more)

    return noted


class TestReplacing:
    """A file is replaced in one step."""

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
    def test_a_file_keeps_its_mode(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "a").write_text("old and longer", encoding="utf-8")
        (tmp_path / "a").chmod(mode)
        replace_file(str(tmp_path / "a"), b"new")

        assert {"a": b"new"} == contents(tmp_path)
        assert mode == mode_of(tmp_path / "a")

    @pytest.mark.parametrize("exclusive", [False, True])
    @pytest.mark.parametrize(("new", "umask"), [(0o666, 0o022), (0o666, 0o077), (0o644, 0)])
    def test_a_new_file_has_its_mode_less_the_umask(
        self, tmp_path: Path, new: int, umask: int, exclusive: bool
    ) -> None:
        before = os.umask(umask)
        try:
            replace_file(str(tmp_path / "a"), b"", new_mode=new, exclusive=exclusive)
        finally:
            os.umask(before)

        assert new & ~umask == mode_of(tmp_path / "a")

    def test_a_mode_that_is_given_counts(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("old", encoding="utf-8")
        (tmp_path / "a").chmod(0o400)
        replace_file(str(tmp_path / "a"), b"new", mode=0o604)

        assert 0o604 == mode_of(tmp_path / "a")

    def test_the_new_file_is_private_until_it_has_its_mode(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a").write_text("old", encoding="utf-8")
        (tmp_path / "a").chmod(0o600)
        seen = []
        fsync = os.fsync

        def look(file: int) -> None:
            seen.append(stat.S_IMODE(os.fstat(file).st_mode))
            fsync(file)

        monkeypatch.setattr(os, "fsync", look)
        replace_file(str(tmp_path / "a"), b"new")

        assert [0o600] == seen

    def test_a_reader_of_the_old_file_continues_reading_it(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("old", encoding="utf-8")
        with (tmp_path / "a").open(encoding="utf-8") as reader:
            replace_file(str(tmp_path / "a"), b"new")

            assert "old" == reader.read()

    @pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
    def test_special_files_remain(self, tmp_path: Path, kind: str) -> None:
        place, target = tmp_path / "a", tmp_path / "target"
        target.write_text("old", encoding="utf-8")
        if kind == "link":
            place.symlink_to("target")
        elif kind == "folder":
            place.mkdir()
        else:
            os.mkfifo(place)
        with pytest.raises(OSError, match=r"(file|directory)$"):
            replace_file(str(place), b"new")

        assert "old" == target.read_text(encoding="utf-8")
        assert ["a", "target"] == names(tmp_path)
        assert not place.is_file() or place.is_symlink()

    @pytest.mark.slow
    @pytest.mark.parametrize("locked", [".", "a"])
    def test_protected_files_remain(self, anyones: Path, locked: str) -> None:
        (anyones / locked).chmod(0o555)

        assert "permission denied" == script_output(
            LIMITED, str(anyones), 'replace_file("a", b"new")'
        )
        assert {"a": b"old"} == contents(anyones)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "code",
        [
            'replace_file("a", b"x" * 100)',
            'replace_file("b", b"x" * 100, exclusive=True)',
            'write_new("b", b"x" * 100)',
            'create_folder("b", {"c": b"x", "d": b"x" * 100})',
        ],
    )
    def test_a_full_disk_leaves_all_as_it_was(self, anyones: Path, code: str) -> None:
        assert "file too large" == script_output(LIMITED, str(anyones), code)
        assert {"a": b"old"} == contents(anyones)

    def test_it_is_on_the_disk_before_it_has_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order: list[str] = []
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, noting(order, getattr(os, name)))
        replace_file(str(tmp_path / "a"), b"new")

        assert ["fsync", "replace"] == order

    def test_a_relative_path_starts_at_the_descriptor(self, tmp_path: Path) -> None:
        place = os.open(tmp_path, os.O_RDONLY)
        try:
            replace_file("a", b"1", exclusive=True, folder=place)
            replace_file("a", b"2", folder=place)
        finally:
            os.close(place)

        assert {"a": b"2"} == contents(tmp_path)


class TestNewFiles:
    """A file that must be new is that of one writer."""

    @pytest.mark.parametrize("kind", ["file", "folder", "dangling"])
    def test_existing_files_remain(self, tmp_path: Path, kind: str) -> None:
        place = tmp_path / "a"
        if kind == "file":
            place.write_text("old", encoding="utf-8")
        elif kind == "folder":
            place.mkdir()
        else:
            place.symlink_to("gone")
        with pytest.raises(FileExistsError):
            replace_file(str(place), b"new", exclusive=True)
        with pytest.raises(FileExistsError):
            write_new(str(place), b"new")

        assert ["a"] == names(tmp_path)
        assert kind != "file" or "old" == place.read_text(encoding="utf-8")

    @pytest.mark.parametrize("with_links", [True, False])
    def test_of_many_writers_one_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_links: bool
    ) -> None:
        def refused(*_given: object, **_more: object) -> None:
            raise OSError(errno.EPERM, "operation not permitted")

        if not with_links:
            monkeypatch.setattr(os, "link", refused)

        def won(number: int) -> bool:
            try:
                replace_file(str(tmp_path / "a"), str(number).encode() * 10_000, exclusive=True)
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            winners = [number for number, won_it in enumerate(pool.map(won, range(8))) if won_it]

        assert 1 == len(winners)
        assert {"a": str(winners[0]).encode() * 10_000} == contents(tmp_path)


class TestFolders:
    """A folder is there with all of its files, or not at all."""

    def test_it_is_made_with_its_files(self, tmp_path: Path) -> None:
        assert create_folder(str(tmp_path / "new"), {"a": b"1", "b": b"2"})
        assert {"a": b"1", "b": b"2"} == contents(tmp_path / "new")
        assert ["new"] == names(tmp_path)

    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_the_owner_of_the_name_remains(self, tmp_path: Path, kind: str) -> None:
        there = tmp_path / "new"
        if kind == "folder":
            there.mkdir()
            (there / "x").touch()
        else:
            there.touch()

        assert not create_folder(str(there), {"a": b"1"})
        assert ["new"] == names(tmp_path)
        assert kind == "file" or ["x"] == names(there)

    def test_a_failed_creation_has_the_error_of_the_system(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            create_folder(str(tmp_path / "gone/new"), {})
