"""Measurements, printed and never asserted: pytest -m benchmark -n 0 -s tests/benchmarks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from cases import lay_down
from driving import (
    SCHEMAS,
    context_for,
    create_database,
    create_project,
    on_context,
    quiet,
    server_command,
)
from wire import MODERN, Wire

from ralphgen.commands import regenerate

pytestmark = pytest.mark.benchmark

RALPHGEN = str(Path(sys.executable).with_name("ralphgen"))
PEER = Path(__file__).with_name("peer.py")
ERAS = ("2025-11-25", "2026-07-28")
SCALE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    SELECT 'd' || i, 'D ' || i, printf('D%03d', i), 'Code', '#068d87' FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
INSERT INTO features (name, display_name, acronym)
    SELECT 'f' || i, 'F ' || i, char(65 + i / 676 % 26, 65 + i / 26 % 26, 65 + i % 26, 90) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO tasks (feature, discipline, title, description, status, depends_on)
    SELECT 'f' || (i % 1000 + 1), 'd' || (i % 200 + 1), 'Task ' || i, 'Do number ' || i,
        CASE i % 3 WHEN 0 THEN 'done' ELSE 'pending' END,
        CASE WHEN i > 10 THEN '[' || (i - 1) || ',' || (i - 7) || ']' END FROM n;
"""


def show(what: str, figure: str, note: str = "") -> None:
    """One line of the report."""
    sys.stdout.write(f"{what:<58} {figure:>12}  {note}\n")


def milliseconds(action: Callable[[], object], times: int) -> float:
    """The median of some runs."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append((time.perf_counter() - start) * 1000)
    return median(taken)


def process(*command: str, **environment: str) -> None:
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, **environment}, timeout=300
    )


@contextmanager
def conversation(command: list[str]) -> Iterator[Wire]:
    """A server that ends with the conversation."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as server:
        yield Wire(server)
        assert server.stdin is not None
        server.stdin.close()


def params(era: str, **given: Any) -> dict[str, Any]:
    """The parameters of a request, with the envelope of the era."""
    return {**given, "_meta": MODERN} if era >= "2026" else given


def start_times(command: list[str], era: str, times: int = 5) -> tuple[float, float, int]:
    """Milliseconds to the handshake and to the first list, and the peak of memory in kB."""
    shaken: list[float] = []
    listed: list[float] = []
    memory = 0
    for _ in range(times):
        start = time.perf_counter()
        with conversation(command) as wire:
            wire.shake_hands(era)
            shaken.append((time.perf_counter() - start) * 1000)
            wire.ask("tools/list", params(era))
            listed.append((time.perf_counter() - start) * 1000)
            memory = max(memory, peak(wire.process.pid))
    return median(shaken), median(listed), memory


def peak(process_id: int) -> int:
    """The most memory in kB that a process has held; 0 where the system does not tell."""
    status = Path(f"/proc/{process_id}/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def calls(wire: Wire, name: str, arguments: Mapping[str, Any], times: int = 100) -> float:
    """The median of warm calls, there and back."""

    def call() -> None:
        answer = wire.ask("tools/call", {"name": name, "arguments": dict(arguments)})
        assert not answer["result"].get("isError"), answer

    call()
    return milliseconds(call, times)


def pings(wire: Wire) -> float:
    """What there and back costs without any work: to be taken off from a call."""
    return milliseconds(lambda: wire.ask("ping"), 100)


def manual(root: Path) -> list[str]:
    return server_command(root, *on_context(context_for(root, "manual")))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("large"), SCALE, rows="")


def peer_of(root: Path) -> list[str]:
    return [sys.executable, "-I", str(PEER), str(root / ".ralph/db/ralph.db")]


def test_commands_as_whole_processes(tmp_path: Path) -> None:
    root = lay_down("full", tmp_path / "full")
    bare = milliseconds(lambda: process(sys.executable, "-c", "pass"), 5)
    process(RALPHGEN, "regen", str(root), "--no-install")
    show("python -c pass", f"{bare:.0f} ms")
    for command in (["regen", "--no-install"], ["check"], ["tools", "--json"], ["--version"]):
        name, *options = command
        where = [] if name.startswith("-") else [str(root)]
        taken = milliseconds(partial(process, RALPHGEN, name, *where, *options), 7)
        wish = "(wish: 500 ms)" if name in ("regen", "check") else ""
        show(f"ralphgen {' '.join(command)}, full fixture", f"{taken:.0f} ms", wish)


def test_init_of_a_second_project(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    start = time.perf_counter()
    process(RALPHGEN, "init", str(tmp_path / "first"), RALPHGEN_HOME=home)
    show("ralphgen init, the first on a machine", f"{time.perf_counter() - start:.1f} s")
    number = iter(range(100))
    taken = milliseconds(
        lambda: process(RALPHGEN, "init", str(tmp_path / f"{next(number)}"), RALPHGEN_HOME=home), 5
    )
    show("ralphgen init, a second project", f"{taken:.0f} ms", "(wish: 1,000 ms)")


def test_bytes_of_the_list(project: Path) -> None:
    for recipe, wish in (("manual", 14_000), ("task_execution", 3_500)):
        context = context_for(project, recipe)
        with conversation(server_command(project, *on_context(context))) as wire:
            wire.shake_hands()
            tools = wire.ask("tools/list")["result"]["tools"]
            size = len(json.dumps(tools, separators=(",", ":")).encode())
            show(f"tools/list, {recipe}: {len(tools)} tools", f"{size:,} B", f"(wish: {wish:,})")


def test_start_beside_a_peer(project: Path) -> None:
    for era in ERAS:
        ours = start_times(manual(project), era)
        theirs = start_times(peer_of(project), era)
        names = ("handshake", "first tools/list", "peak of memory")
        for name, our, their in zip(names, ours, theirs, strict=True):
            unit = "kB" if "memory" in name else "ms"
            note = f"peer {their:,.0f} {unit}, ratio {our / their:.2f}"
            show(f"start to {name}, {era}", f"{our:,.0f} {unit}", note)


def test_warm_calls_beside_a_peer(project: Path) -> None:
    with conversation(manual(project)) as wire, conversation(peer_of(project)) as peer:
        wire.shake_hands()
        peer.shake_hands()
        show("ping", f"{pings(wire):.2f} ms", f"peer {pings(peer):.2f} ms")
        for name, given, same in (
            ("get_project_info", {}, {}),
            ("get_task", {"id": 1}, {"task_id": 1}),
        ):
            our, their = calls(wire, name, given), calls(peer, name, same)
            note = f"peer {their:.2f} ms, ratio {our / their:.2f}"
            show(f"warm {name}", f"{our:.2f} ms", note)
        show("warm list_tasks", f"{calls(wire, 'list_tasks', {}):.2f} ms")
        added = {"feature": "auth", "discipline": "backend", "title": "One more"}
        show("warm create_task", f"{calls(wire, 'create_task', added):.2f} ms")


def test_rows_do_not_slow_regen(large: Path, tmp_path: Path) -> None:
    """Side by side in this process: the schema of the large project with and without its rows."""
    schema = (SCHEMAS / "a8.sql").read_text(encoding="utf-8")
    create_database(tmp_path, schema)
    regenerate(tmp_path, force=False, say=quiet)
    small = milliseconds(lambda: regenerate(tmp_path, force=False, say=quiet), 15)
    taken = milliseconds(lambda: regenerate(large, force=False, say=quiet), 15)
    note = f"without rows {small:.0f} ms, ratio {taken / small:.2f}"
    show("regen in one process, 200/1,000/20,000 rows", f"{taken:.0f} ms", note)


def test_calls_on_many_rows(large: Path) -> None:
    with conversation(manual(large)) as wire:
        wire.shake_hands()
        nothing = pings(wire)
        show("ping", f"{nothing:.2f} ms")
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("list_tasks", {}),
            ("list_tasks", {"filter_status": "done", "limit": 200}),
            ("list_tasks", {"filter_feature": "f7"}),
            ("get_task", {"id": 19_000}),
            ("get_project_progress", {}),
            ("list_features", {}),
            ("list_disciplines", {}),
            ("get_feature", {"name": "f7"}),
            ("update_task", {"id": 10_000, "depends_on": [1, 2]}),
        )
        for name, arguments in asked:
            taken = calls(wire, name, arguments, times=30)
            words = " ".join(f"{key}={value}" for key, value in arguments.items())
            note = f"{taken - nothing:.2f} ms without there and back"
            show(f"20,000 tasks: {name} {words}", f"{taken:.2f} ms", note)
        show("20,000 tasks: peak of memory", f"{peak(wire.process.pid):,} kB")
