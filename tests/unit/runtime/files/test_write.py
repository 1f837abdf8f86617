"""A file is always the complete old or new one, for every reader and after every failure."""

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

from ralphgen.runtime.files import create_folder, replace_file, write_new

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
