"""Reading and atomic writing of item files."""

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ralphgen.kits.rye.server.spaces import LARGEST, Item, Space, has_no_link, read_item, write_item
from ralphgen.runtime.errors import CodedError

CODE_TO_WRITE = """
import sys
from ralphgen.kits.rye.server.spaces import write_item
from ralphgen.kits.rye.server.spaces import Item, Space
item = Item("tool", "demo/git", ".py", Space("project", sys.argv[1]))
while True:
    write_item(item, "x" * 500_000, exclusive=False)
"""
CODE_WITHOUT_RIGHTS = """
import os, sys
from ralphgen.runtime.errors import CodedError
from ralphgen.kits.rye.server.spaces import write_item
from ralphgen.kits.rye.server.spaces import Item, Space
item = Item("tool", "git", ".py", Space("project", sys.argv[1]))
if not os.getuid():
    os.setuid(65534)
try:
    write_item(item, "x", exclusive=False)
except CodedError as error:
    print(error.code, error)
"""
OUTSIDE = "nobody may touch this"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory that contains a space."""
    return tmp_path.resolve()


@pytest.fixture
def item(root: Path) -> Item:
    """Return a tool that does not exist on disk."""
    return Item("tool", "demo/git", ".py", Space("project", str(root / ".ai")))


@pytest.fixture
def file(item: Item) -> Path:
    """Return the file of the tool, in an existing directory."""
    path = Path(item.path)
    path.parent.mkdir(parents=True)
    return path


@contextmanager
def small_files() -> Iterator[None]:
    """Limit all files to 1,000 bytes, as on a full disk; this includes pytest's output."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def refusal(act: Callable[[], object], root: Path) -> CodedError:
    """Return the error of a call that must fail, which must not reveal the path of the project."""
    with pytest.raises(CodedError) as refused:
        act()

    assert str(root) not in str(refused.value)
    assert str(root) not in str(refused.value.facts)
    return refused.value


def names(folder: Path) -> list[str]:
    """Return the sorted names in a directory."""
    return sorted(path.name for path in folder.iterdir())


class TestReading:
    """Reading returns the unmodified text of a regular file in the space."""

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"a\nb\xff", "is not valid UTF-8: fix line 2"),
            ("a".encode("utf-16"), "is not valid UTF-8: fix line 1"),
            (b"\xed\xa0\x80", "is not valid UTF-8: fix line 1"),
            (b"x" * (LARGEST + 1), "is larger than 1,048,576 bytes: shorten it"),
        ],
    )
    def test_file_that_is_not_text_is_refused(
        self, item: Item, file: Path, root: Path, data: bytes, why: str
    ) -> None:
        file.write_bytes(data)
        error = refusal(lambda: read_item(item), root)

        assert "PARSING_ERROR" == error.code
        assert f'the tool "demo/git" of the project space {why}' == str(error)

    def test_item_of_the_maximum_size_is_read(self, item: Item, file: Path) -> None:
        file.write_bytes(b"x" * LARGEST)

        assert LARGEST == len(read_item(item))

    def test_removed_file_is_not_found(self, item: Item, root: Path) -> None:
        assert "ITEM_NOT_FOUND" == refusal(lambda: read_item(item), root).code

    def test_pipe_does_not_block_a_read(self, item: Item, file: Path, root: Path) -> None:
        os.mkfifo(file)

        assert "PARSING_ERROR" == refusal(lambda: read_item(item), root).code

    def test_space_without_a_directory_is_empty(self) -> None:
        assert not has_no_link(Space("user", ""), os.path.realpath(sys.executable))


class TestLinks:
    """Links are neither read nor written through, at any level and to any target."""

    @pytest.mark.parametrize(
        "linked", [".ai", ".ai/tools", ".ai/tools/demo", ".ai/tools/demo/git.py"]
    )
    @pytest.mark.parametrize("target", ["outside", ".ai-inside"])
    def test_symbolic_link_is_refused(
        self, item: Item, root: Path, linked: str, target: str
    ) -> None:
        place = root / target
        rest = os.path.relpath(".ai/tools/demo/git.py", linked)
        canary = place if rest == "." else place / rest
        canary.parent.mkdir(parents=True, exist_ok=True)
        canary.write_text(OUTSIDE, encoding="utf-8")
        link = root / linked
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(place)
        before = sorted(root.rglob("*"))
        for act in (
            lambda: read_item(item),
            lambda: write_item(item, "x", exclusive=False),
            lambda: write_item(item, "x", exclusive=True),
        ):
            assert "SPACE_VIOLATION" == refusal(act, root).code
        assert OUTSIDE == canary.read_text(encoding="utf-8")
        assert before == sorted(root.rglob("*"))

    def test_dangling_link_creates_no_file(self, item: Item, file: Path, root: Path) -> None:
        file.symlink_to(root / "made")
        error = refusal(lambda: write_item(item, "x", exclusive=False), root)

        assert "SPACE_VIOLATION" == error.code
        assert not (root / "made").exists()

    def test_hard_link_elsewhere_keeps_its_text(self, item: Item, file: Path, root: Path) -> None:
        (root / "outside").write_text(OUTSIDE, encoding="utf-8")
        file.hardlink_to(root / "outside")
        write_item(item, "x", exclusive=False)

        assert OUTSIDE == (root / "outside").read_text(encoding="utf-8")
        assert "x" == read_item(item)


class TestWriting:
    """A write replaces the whole file, or leaves it unchanged without temporary files."""

    @pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0, 0o644)])
    def test_new_file_is_readable_as_the_umask_permits(
        self, item: Item, mask: int, expected: int
    ) -> None:
        before = os.umask(mask)
        try:
            write_item(item, "x", exclusive=True)
        finally:
            os.umask(before)

        assert expected == stat.S_IMODE(Path(item.path).stat().st_mode)

    @pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
    def test_file_keeps_its_mode(self, item: Item, file: Path, mode: int) -> None:
        file.touch()
        file.chmod(mode)
        write_item(item, "x", exclusive=False)

        assert mode == stat.S_IMODE(file.stat().st_mode)
        write_item(item, "y", mode=0o640, exclusive=False)

        assert 0o640 == stat.S_IMODE(file.stat().st_mode)

    def test_exclusive_write_does_not_replace_a_file(
        self, item: Item, file: Path, root: Path
    ) -> None:
        file.write_text("first", encoding="utf-8")
        error = refusal(lambda: write_item(item, "second", exclusive=True), root)

        assert "EXISTS" == error.code
        assert "first" == read_item(item)
        assert ["git.py"] == names(file.parent)

    def test_one_of_many_exclusive_writers_wins(self, item: Item) -> None:
        def won(number: int) -> bool:
            try:
                write_item(item, str(number) * 10_000, exclusive=True)
            except CodedError as error:
                if error.code != "EXISTS":
                    raise
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            winners = [number for number, won_it in enumerate(pool.map(won, range(8))) if won_it]

        assert 1 == len(winners)
        assert str(winners[0]) * 10_000 == read_item(item)
        assert ["git.py"] == names(Path(item.path).parent)

    @pytest.mark.parametrize("exclusive", [True, False])
    def test_full_disk_leaves_no_file(
        self, item: Item, file: Path, root: Path, exclusive: bool
    ) -> None:
        before = [] if exclusive else ["git.py"]
        if not exclusive:
            file.write_text("old", encoding="utf-8")
        with small_files():
            error = refusal(lambda: write_item(item, "x" * 2_000, exclusive=exclusive), root)

        assert "EXECUTION_FAILED" == error.code
        assert before == names(file.parent)
        assert exclusive or "old" == read_item(item)

    @pytest.mark.thorough
    @pytest.mark.slow
    def test_killed_writer_leaves_a_complete_file(self, item: Item, file: Path) -> None:
        old = "o" * 400_000
        write_item(item, old, exclusive=True)
        for _ in range(5):
            left = names(file.parent)
            writer = subprocess.Popen([sys.executable, "-c", CODE_TO_WRITE, item.space.folder])
            while left == names(file.parent):
                assert None is writer.poll()
            writer.kill()
            writer.wait()

            assert read_item(item) in {old, "x" * 500_000}
            assert [] == [name for name in names(file.parent)[:-1] if not name.startswith(".")]

    @pytest.mark.slow
    @pytest.mark.parametrize(("folder", "mode"), [(0o555, 0o666), (0o777, 0o444)])
    def test_file_without_write_permission_is_unchanged(self, folder: int, mode: int) -> None:
        with TemporaryDirectory() as made:  # accessible without privileges, unlike tmp_path
            space = Space("project", os.path.realpath(made))
            Path(made).chmod(0o755)
            item = Item("tool", "git", ".py", space)
            write_item(item, "old", mode=mode, exclusive=True)
            place = Path(item.path).parent
            place.chmod(folder)
            told = subprocess.run(
                [sys.executable, "-c", CODE_WITHOUT_RIGHTS, space.folder],
                capture_output=True,
                check=False,
                encoding="utf-8",
            )
            place.chmod(0o755)

            assert told.stdout.startswith("READ_ONLY_SPACE "), told.stderr
            assert told.stdout.endswith(" cannot be written: permission denied\n")
            assert ("old", ["git.py"]) == (read_item(item), names(place))

    def test_item_above_the_size_limit_is_not_written(self, item: Item, root: Path) -> None:
        error = refusal(lambda: write_item(item, "é" * LARGEST, exclusive=True), root)

        assert "VALIDATION_FAILED" == error.code
        assert not (root / ".ai").exists()

    @pytest.mark.parametrize("exclusive", [True, False])
    @pytest.mark.parametrize("blocked", [".ai/tools", ".ai/tools/demo"])
    def test_file_in_place_of_a_directory_is_reported(
        self, item: Item, root: Path, blocked: str, exclusive: bool
    ) -> None:
        (root / blocked).parent.mkdir(parents=True)
        (root / blocked).write_text(OUTSIDE, encoding="utf-8")
        error = refusal(lambda: write_item(item, "x", exclusive=exclusive), root)

        assert "EXECUTION_FAILED" == error.code
        assert OUTSIDE == (root / blocked).read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("item_id", "space", "folder", "code"),
        [
            ("demo/git", "system", "{root}/.ai", "READ_ONLY_SPACE"),
            ("demo/git", "user", "", "READ_ONLY_SPACE"),
            ("rye/core/x", "project", "{root}/.ai", "READ_ONLY_SPACE"),
            ("../git", "project", "{root}/.ai", "INVALID_ID"),
        ],
    )
    def test_item_is_not_written_to_a_read_only_place(
        self, root: Path, item_id: str, space: str, folder: str, code: str
    ) -> None:
        item = Item("tool", item_id, ".py", Space(space, folder.format(root=root)))

        assert code == refusal(lambda: write_item(item, "x", exclusive=True), root).code
        assert [] == [*root.iterdir()]
