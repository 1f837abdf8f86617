"""The cost of the board's pages, and of ten open tabs: for writers, and for the machine."""

import json
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
import uvicorn
from board_browsers import BoardProcess, board_process
from browser.browsing import BROWSER, Page, open_chromium
from figures import topic
from projects import database, ours, project
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from test_many_writers import at_once

from ralphgen.ledger.tables import definition

pytestmark = pytest.mark.benchmark
TABS, AGENTS, WRITES = 10, 8, 25
PROBED = 8.0  # seconds
PAGES = {"inbox": "", "tasks": "tasks", "tasks in columns": "tasks?layout=board"}
PAINTS = 9
PAINTED = """new Promise((found) => new PerformanceObserver((list) =>
    list.getEntriesByName("first-contentful-paint").forEach((one) => found(one.startTime))
).observe({ type: "paint", buffered: true }))"""
BUDGETS = {60: 60_000, 10_000: 120_000}  # bytes of a page, by tasks
MOST_MEMORY = 120  # MB
PENDING, SHARED = "1073741824", "1073741826"
"""Where SQLite locks a database file: the byte of a writer that waits for readers, and theirs."""
OF_WRITERS = ("120", "121", "122")
"""The bytes of a log's shared memory that one process at a time can have."""
SESSIONS = """
INSERT INTO ralphgen_ledger (created) VALUES ('2026-02-10T00:00:00Z');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
INSERT INTO ralphgen_sessions (id, recipe, task_id, agent, started, outcome, cost_usd)
    SELECT 's-' || i, 'task_execution', i, 'a', '2026-02-10T10:00:00Z', 'done', 0.5 FROM n;
"""


class Tab(Thread):
    """An open inbox: it listens for changes, and reloads changed parts, as the script does."""

    def __init__(self, board: BoardProcess, over: Event) -> None:
        """Begins with the whole page."""
        super().__init__(daemon=True)
        self._board = board
        self._over = over
        self.drawn = 0

    def run(self) -> None:
        """Draw until it is over."""
        self._board.get("")
        with suppress(OSError), self._board.asked("GET", "events?since=0") as stream:
            while not self._over.is_set():
                line = stream.readline().decode()
                if line.startswith("data: ") and "status" in json.loads(line[6:])["sections"]:
                    for name in ("night", "list", "badge"):
                        self._board.get(f"?part={name}")
                        self.drawn += 1


@contextmanager
def tabs(root: Path, count: int) -> Iterator[tuple[BoardProcess, list[Tab]]]:
    """A board with so many open tabs."""
    over = Event()
    with board_process(root, fresh=True) as board:
        opened = [Tab(board, over) for _ in range(count)]
        for tab in opened:
            tab.start()
        time.sleep(3)
        try:
            yield board, opened
        finally:
            over.set()


class LockWatch(Thread):
    """Checks the locks on a database a few thousand times per second (`/proc/locks`).

    A writer that holds the pending byte, or requests one of the log's, waits for the current
    readers or holders. `longest` is the longest wait in milliseconds for the process `holder`;
    `looks` counts the checks during a wait.
    """

    def __init__(self, path: Path, holder: int, over: Event) -> None:
        """Watch the file at `path`, and its shared memory, if it has any."""
        super().__init__(daemon=True)
        shared = path.with_name(f"{path.name}-shm")
        self._inodes = {str(one.stat().st_ino) for one in (path, shared) if one.exists()}
        self._holder = str(holder)
        self._over = over
        self.longest = 0.0
        self.looks = 0

    def run(self) -> None:
        """Look until it is over."""
        begun = None
        while not self._over.is_set():
            now = time.perf_counter()
            if self._keeps_waiting():
                self.looks += 1
                begun = begun or now
                self.longest = max(self.longest, (now - begun) * 1000)
            else:
                begun = None
            time.sleep(0.0002)

    def _keeps_waiting(self) -> bool:
        """Return whether the process keeps a writer waiting, by the rules of SQLite's locks."""
        table = Path("/proc/locks").read_text(encoding="ascii")
        rows = [line.split()[-5:] for line in table.splitlines() if "POSIX" in line]
        rows = [row for row in rows if row[2].rpartition(":")[2] in self._inodes]
        waits = any(row[3] == PENDING and row[1] != self._holder for row in rows)
        own = [row for row in rows if row[1] == self._holder]
        reads = waits and any(row[3] == SHARED for row in own)
        return reads or any(row[0] == "WRITE" and row[3] in OF_WRITERS for row in own)


def waits(root: Path) -> list[float]:
    """The milliseconds that each write of a lone writer waits for others, for some seconds."""
    found: list[float] = []
    with closing(sqlite3.connect(database(root), isolation_level=None, timeout=0)) as connection:
        ends = time.perf_counter() + PROBED
        while time.perf_counter() < ends:
            found.append(_waited(connection, "BEGIN IMMEDIATE"))
            connection.execute(
                "UPDATE tasks SET priority = ? WHERE id = 1", (str(ends - len(found)),)
            )
            found[-1] += _waited(connection, "COMMIT")
            time.sleep(0.02)
    return found


def _waited(connection: sqlite3.Connection, sql: str) -> float:
    """Return the milliseconds during which others blocked a statement."""
    begun = time.perf_counter()
    while True:
        tried = time.perf_counter()
        try:
            connection.execute(sql)
        except sqlite3.OperationalError:
            continue
        return (tried - begun) * 1000


def peak(board: BoardProcess) -> int:
    """The most memory that the board has taken, in MB."""
    status = Path(f"/proc/{board.process.pid}/status").read_text(encoding="utf-8")
    (found,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found) // 1024


@pytest.mark.parametrize("wal", [True, False], ids=["WAL", "rollback journal"])
def test_ten_tabs_with_eight_agents(tmp_path: Path, wal: bool) -> None:
    more = definition() + SESSIONS
    root = project(tmp_path, tasks=20_000, features=200, wal=wal, more=more)
    journal = "WAL" if wal else "rollback journal"
    with topic(f"the board with {TABS} tabs on 20,000 tasks, {journal}") as table:
        for count in (0, TABS):
            with ExitStack() as stack:
                name = f"{count} tabs"
                board, opened = stack.enter_context(tabs(root, count)) if count else (None, [])
                alone = waits(root)
                table.add(name, "a lone writer waits ms", *alone)
                table.add(name, "at most ms", max(alone))
                over = Event()
                watch = (
                    None if board is None else LockWatch(database(root), board.process.pid, over)
                )
                if watch is not None:
                    watch.start()
                writers, _ = at_once(ours(root), AGENTS, WRITES)
                over.set()
                each = [one for writer in writers for one in writer.taken]
                table.add(name, f"a write of {AGENTS} agents ms", *each)
                table.add(name, "the longest ms", max(each))
                table.add(name, "refused", sum(writer.refused for writer in writers))
                if board is not None and watch is not None:
                    watch.join()
                    table.add(name, "a writer waits for the board at most ms", watch.longest)
                    table.add(name, "looks at which one did", watch.looks)
                    table.add(name, "parts drawn", sum(tab.drawn for tab in opened))
                    table.add(name, "memory MB", peak(board))


@contextmanager
def empty_page() -> Iterator[str]:
    """The address of a page with a word, served by Starlette as the board is."""

    async def show(_: Request) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>Empty</title><p>Empty")

    app = Starlette(routes=[Route("/", show)])
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="off"))
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def paint(page: Page, url: str) -> float:
    """The milliseconds from the start of a navigation to the first text on screen."""
    page.go(url)
    return float(page.script(PAINTED))


@pytest.mark.skipif(BROWSER[1].args[0] or BROWSER[2].args[0], reason="there is no browser")
def test_first_paint_and_size_of_pages(tmp_path: Path) -> None:
    with topic("the first paint of the board's pages") as table, ExitStack() as stack:
        urls = {"an empty Starlette page": stack.enter_context(empty_page())}
        boards: dict[int, BoardProcess] = {}
        sizes, first = dict[str, float](), dict[str, float]()
        for count, most in BUDGETS.items():
            more = definition() + SESSIONS
            root = project(tmp_path / str(count), tasks=count, features=count // 20, more=more)
            boards[count] = stack.enter_context(board_process(root, fresh=True))
            begun = time.perf_counter()
            boards[count].get("tasks")
            first[f"tasks, {count:,} tasks"] = (time.perf_counter() - begun) * 1000
            for name, path in PAGES.items():
                row = f"{name}, {count:,} tasks"
                urls[row] = f"{boards[count].url}{path}"
                size = len(boards[count].get(path).encode())
                sizes[row] = size / 1000

                assert size < most, row
        chromium = stack.enter_context(open_chromium())
        pages = {row: stack.enter_context(chromium.page(url)) for row, url in urls.items()}
        for row, url in urls.items():
            paint(pages[row], url)  # the browser has the assets, and the board its templates
        for _ in range(PAINTS):
            for row, url in urls.items():
                table.add(row, "first paint ms", paint(pages[row], url))
        for measure, found in (("HTML kB", sizes), ("the first answer ms", first)):
            for row, value in found.items():
                table.add(row, measure, value)
        for count, board in boards.items():
            table.add(f"tasks, {count:,} tasks", "memory MB", peak(board))

            assert peak(board) < MOST_MEMORY
