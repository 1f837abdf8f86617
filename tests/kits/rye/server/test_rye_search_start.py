"""The server reads no items before the first search, and then only changed files."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, on_context, server_command
from lifelines import until
from rye_projects import TYPES, frames, knowledge, put, python_tool, rye_project, variables
from wire import Wire

STRACE = shutil.which("strace")
SETTLED = 200_000_000  # nanoseconds
MANY = 120
EMITTED = 6  # items of the system in Markdown
FOLDERS = 6
WORDS = " ".join(f"word{number}" for number in range(100))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with items of all types in the project and the user space."""
    root = rye_project(tmp_path / "project", 'policy = "off"')
    for number in range(MANY):
        item_id = f"area{number % FOLDERS}/note-{number}"
        put(root / f".ai/knowledge/{item_id}.md", knowledge(item_id))
    put(root / ".ai/tools/echo.py", python_tool("echo"))
    put(tmp_path / "user/.ai/tools/mine.py", python_tool("mine"))
    return root


def spaces(root: Path) -> tuple[Path, ...]:
    return root / ".ai", root.parent / "user/.ai", root / ".ralph/mcp/rye/system"


def call(root: Path, tool: str, **given: Any) -> dict[str, Any]:
    place = {} if tool == "help" else {"project_path": str(root)}
    return {"name": tool, "arguments": {**place, **given}}


def says(wire: Wire, root: Path, tool: str, **given: Any) -> dict[str, Any]:
    """Return the answer to a call."""
    result = wire.ask("tools/call", call(root, tool, **given))["result"]
    assert not result.get("isError"), result
    told: dict[str, Any] = json.loads(result["content"][0]["text"])
    return told


class Access:
    """Counts the directories of the spaces that are listed from now on."""

    def __init__(self, root: Path) -> None:
        """Reset the access times of the directories."""
        self._folders = [
            path for space in spaces(root) for path in (space, *space.rglob("*")) if path.is_dir()
        ]
        for folder in self._folders:
            os.utime(folder, ns=(0, folder.stat().st_mtime_ns))

    def number(self) -> int:
        """Return the number of listed directories."""
        return sum(folder.stat().st_atime_ns != 0 for folder in self._folders)


@pytest.fixture
def _sees_access(tmp_path: Path) -> None:
    """Skip a test if the file system does not record access times."""
    probe = tmp_path / "probe"
    probe.mkdir()
    os.utime(probe, ns=(0, probe.stat().st_mtime_ns))
    assert [] == [*probe.iterdir()]
    if probe.stat().st_atime_ns == 0:
        pytest.skip("this file system keeps no times of access")


@pytest.mark.usefixtures("_sees_access")
def test_no_folder_of_items_is_listed_before_the_first_search(root: Path) -> None:
    access = Access(root)
    with frames(root, variables(root.parent)) as wire:
        wire.ask("tools/list")
        says(wire, root, "help")
        before = access.number()
        says(wire, root, "search", item_type="all", query="")

    assert 0 == before
    assert access.number() > FOLDERS


@pytest.mark.usefixtures("_sees_access")
def test_an_item_is_loaded_by_its_id_without_looking_at_others(root: Path) -> None:
    access = Access(root)
    with frames(root, variables(root.parent)) as wire:
        says(wire, root, "load", item_type="knowledge", item_id="area1/note-1")
        says(wire, root, "execute", item_type="tool", item_id="echo")
        before = access.number()
        says(wire, root, "load", item_type="knowledge", item_id="note-1")

    assert 0 == before
    assert access.number() > FOLDERS


class Traced:
    """A traced server; `opened` returns the files that it opened for each answer."""

    def __init__(self, wire: Wire, log: Path) -> None:
        self.wire = wire
        self._log = log

    def opened(self, root: Path) -> list[list[str]]:
        """End the server; return the opened files and directories of spaces for each answer."""
        self.wire.leave()
        self.wire.end()
        found: list[list[str]] = [[]]
        tops = tuple(str(space) for space in spaces(root))
        for line in self._log.read_text(encoding="utf-8").splitlines():
            if re.search(r'write\(\d+, "{"', line):
                found.append([])
            match = re.search(r'openat\((\w+), "([^"]*)".*= \d+$', line)
            if match and (match[1] != "AT_FDCWD" or match[2].startswith(tops)):
                found[-1].append(match[2])
        return found


@contextmanager
def traced(root: Path) -> Iterator[Traced]:
    """Yield a traced server after the handshake."""
    log = root.parent / "trace.txt"
    command = server_command(root, "rye", *on_context(context_for(root, "manual")))
    options: Sequence[str] = ("-f", "-qq", "-s", "1", "-e", "trace=openat,write", "-o", str(log))
    with subprocess.Popen(
        [str(STRACE), *options, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **variables(root.parent)},
    ) as process:
        wire = Wire(process)
        wire.shake_hands()
        yield Traced(wire, log)


@pytest.fixture
def _can_trace() -> None:
    """Skip a test if processes cannot be traced here."""
    if STRACE is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run([STRACE, "-qq", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("processes may not be traced here")


@pytest.mark.usefixtures("_can_trace")
def test_a_search_reads_what_was_changed_and_nothing_else(root: Path) -> None:
    asked = {"item_type": "knowledge", "query": "learned", "source": "project", "limit": 1}
    changed = root / ".ai/knowledge/area1/note-1.md"
    # Recently written files would be read again, because clocks move in steps.
    newest = max(path.stat().st_ctime_ns for path in (root / ".ai").rglob("*"))
    assert until(lambda: time.time_ns() > newest + SETTLED)
    with traced(root) as server:
        wire = server.wire
        wire.ask("tools/list")
        says(wire, root, "help")
        said = [says(wire, root, "search", **asked) for _ in range(2)]
        put(changed, knowledge("area1/note-1", "learned at last\n"))
        said.append(says(wire, root, "search", **asked))
        shaken, listed, helped, first, idle, after, *_ = server.opened(root)
    notes = [[name for name in each if name.endswith(".md")] for each in (first, idle, after)]

    assert [MANY] * 3 == [told["total"] for told in said]
    assert [] == shaken == listed == helped
    # The shown item is read again for its preview; the first search reads all spaces.
    assert (MANY + EMITTED + 1, 1, 2) == tuple(map(len, notes))
    assert changed.name in notes[2]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize(
    ("items", "most"), [(1_000, 90), pytest.param(10_000, 110, marks=pytest.mark.soak)]
)
def test_many_items_fit_into_a_server(tmp_path: Path, items: int, most: int) -> None:
    """`most` is in megabytes."""
    root = rye_project(tmp_path / "project", 'policy = "off"')
    for number in range(items):
        item_id = f"area{number % 50}/note-{number}"
        text = f"{WORDS} needle-{number % 100} {number}"
        put(root / f".ai/knowledge/{item_id}.md", knowledge(item_id, text))
    put(root / ".ai/tools/echo.py", python_tool("echo"))
    with frames(root, variables(tmp_path)) as wire:
        says(wire, root, "execute", item_type="tool", item_id="echo")
        found = [
            says(wire, root, "search", item_type="all", query=query, limit=100)
            for query in ('"needle-7"', "word1 NOT needle", "", "wo*99", '"needle-7"')
        ]
        status = Path(f"/proc/{wire.process.pid}/status").read_text(encoding="utf-8")
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)

    assert [items // 100, 0, items + len(TYPES) * 3 + 1, items, items // 100] == [
        told["total"] for told in found
    ]
    assert int(peak) / 1024 <= most
