"""Disk and time of the directories that agents work and are checked in, with 300 MB in each."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from figures import Topic, topic
from merging_projects import merging_project, say
from proved_projects import TESTS, git

from ralphgen.loop import trees
from ralphgen.project.config import LoopConfig

pytestmark = pytest.mark.benchmark

# The file system to measure; each agent needs up to 600 MB there.
FOLDER = Path(os.environ.get("RALPHGEN_BENCHMARK_FOLDER", tempfile.gettempdir()))
AGENTS = [int(number) for number in os.environ.get("RALPHGEN_AGENTS", "1 4 16").split()]
STORE = "node_modules"
FILES, BYTES = 30_000, 10_240  # together 300 MB, in directories of 100 files
PIECE = os.urandom(BYTES)
CLONE = 0x40049409  # FICLONE of Linux
MEGABYTE = 1 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty directory on the file system to measure."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        yield Path(name)


def installed(path: Path) -> Path:
    """Dependencies as a package manager installs them."""
    for number in range(FILES):
        inner = path / f"package-{number // 100}"
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{number}.js").write_bytes(number.to_bytes(4, "big") + PIECE[4:])
    return path


def files_below(paths: Iterable[Path]) -> Iterator[os.DirEntry[str]]:
    for path in paths:
        for entry in os.scandir(path):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from files_below([Path(entry.path)])


def megabytes(own: Iterable[Path], shared: Iterable[Path]) -> float:
    """Return the size of directories without files shared by hard links; clones count in full."""
    known = {entry.inode() for entry in files_below(shared)}
    found = {entry.inode(): entry.stat(follow_symlinks=False) for entry in files_below(own)}
    taken = (facts.st_blocks for inode, facts in found.items() if inode not in known)
    return sum(taken) * 512 / MEGABYTE


def used() -> float:
    """Return the used space of the whole file system, for clones: nothing else may write there."""
    os.sync()
    facts = os.statvfs(FOLDER)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize / MEGABYTE


def cloned(source: str | Path, target: str | Path) -> None:
    """Copy a file whose blocks both share until one is written."""
    with Path(source).open("rb") as old, Path(target).open("xb") as new:
        fcntl.ioctl(new, CLONE, old.fileno())


def has_clones() -> bool:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        source = Path(folder, "source")
        source.write_bytes(PIECE)
        try:
            cloned(source, source.with_name("target"))
        except OSError:
            return False
        return True


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@pytest.mark.parametrize("way", ["copy", "hard link", "reflink"])
def test_copy_of_dependencies(folder: Path, way: str) -> None:
    """A copy is made, then looked at as before a run of the checks: what has changed in it."""
    if way == "reflink" and not has_clones():
        pytest.skip("this file system has no reflinks")
    store, target = installed(folder / STORE), folder / "copy"
    copying: Any = {"copy": shutil.copy2, "hard link": os.link, "reflink": cloned}
    before, copied = used(), copying[way]
    with topic("A copy of 300 MB in 30,000 files") as table:
        table.add(way, "s", timed(lambda: shutil.copytree(store, target, copy_function=copied)))
        on_disk = used() - before if way == "reflink" else megabytes([target], [store])
        table.add(way, "MB on disk", on_disk)
        found = timed(lambda: [one.stat() for one in files_below([target])])
        table.add(way, "s to read the change times", found)
        table.add(way, "s to compare the bytes", timed(lambda: compared(store, target)))


def compared(store: Path, target: Path) -> None:
    for path in store.rglob("*.js"):
        assert path.read_bytes() == (target / path.relative_to(store)).read_bytes()


def settings(way: str, store: Path) -> LoopConfig:
    """Return how the settings bring dependencies to a worktree."""
    if way == "copy":
        return LoopConfig.model_validate({"copy": [f"{STORE}/**"]})
    options = {"setup": [], "hard-links": ["--link"], "reflinks": ["--reflink=always"]}[way]
    return LoopConfig(setup=[["cp", "--archive", *options, str(store), "."]])


@pytest.mark.parametrize("way", ["copy", "setup", "hard-links", "reflinks"])
@pytest.mark.parametrize("config", ["", TESTS], ids=["without-checks", "with-checks"])
def test_directories_of_agents(folder: Path, config: str, way: str) -> None:
    """All are made at the same time; with checks, private checkouts are part of them."""
    if way == "reflinks" and not has_clones():
        pytest.skip("this file system has no reflinks")
    root = merging_project(folder / "p", config)
    (root / ".gitignore").write_text(f"/{STORE}/\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Ignore the dependencies")
    loop = settings(way, installed(root / STORE))
    with topic(
        f"Worktrees with 300 MB by {way}, {'with' if config else 'without'} checks"
    ) as table:
        for agents in AGENTS:
            measure(table, root, agents, loop, clones=way == "reflinks")
            for tree in (root / trees.FOLDER).iterdir():
                shutil.rmtree(tree) if tree.is_dir() else tree.unlink()
            shutil.rmtree(root / ".git/worktrees")


def measure(table: Topic, root: Path, agents: int, config: LoopConfig, *, clones: bool) -> None:
    """Make the directories of so many agents, and make them ready for the next tasks."""
    row, folder = f"{agents} agents", root / trees.FOLDER

    def prepare_all(first: int) -> None:
        with ThreadPoolExecutor(agents) as pool:
            numbers = range(agents)
            made = pool.map(
                lambda number: trees.prepare(root, number + 1, first + number, config, say), numbers
            )
            assert agents == len([*made])

    before = used()
    table.add(row, "s, all made", timed(lambda: prepare_all(1)))
    on_disk = used() - before if clones else megabytes([folder], [root / STORE])
    table.add(row, "MB on disk", on_disk)
    table.add(row, "s, the next tasks", timed(lambda: prepare_all(agents + 1)))
