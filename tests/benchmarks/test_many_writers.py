"""Many sessions that write at the same time: stored rows, and durations."""

import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier, Thread

import pytest
from figures import topic
from installed import SAME_TOOLS, there
from processes import Conversation, Server, conversation
from projects import database, ours, plain_sdk, project

pytestmark = pytest.mark.benchmark


class Writer(Thread):
    """A separate client; `taken` are the milliseconds of acknowledged writes."""

    def __init__(self, talk: Conversation, name: str, writes: int, start: Barrier) -> None:
        """Writes so many tasks once all others are there."""
        super().__init__(name=name)
        self._talk = talk
        self._writes = writes
        self._start_together = start
        self.taken: list[float] = []
        self.refused = 0

    def run(self) -> None:
        """Write one task after the other."""
        self._start_together.wait()
        for number in range(self._writes):
            given = {"feature": "f1", "discipline": "d1", "title": f"{self.name} {number}"}
            begun = time.perf_counter()
            try:
                self._talk.call("create_task", given)
            except AssertionError:
                self.refused += 1
            else:
                self.taken.append((time.perf_counter() - begun) * 1000)


def count_rows(root: Path) -> int:
    with closing(sqlite3.connect(database(root))) as connection:
        (found,) = connection.execute("SELECT COUNT(*) FROM tasks").fetchone()
    return int(found)


def at_once(server: Server, clients: int, writes: int) -> tuple[list[Writer], float]:
    """The writers, once they are done, and the milliseconds from their common start."""
    with ExitStack() as stack:
        talks = [stack.enter_context(conversation(server)) for _ in range(clients)]
        for talk in talks:
            talk.shake_hands()
            talk.ask("tools/list")
        start = Barrier(clients + 1)
        writers = [
            Writer(talk, f"{server.name} {number}", writes, start)
            for number, talk in enumerate(talks)
        ]
        for writer in writers:
            writer.start()
        start.wait()
        begun = time.perf_counter()
        for writer in writers:
            writer.join()
        taken = (time.perf_counter() - begun) * 1000
    return writers, taken


@pytest.mark.parametrize("wal", [True, False], ids=["WAL", "rollback journal"])
@pytest.mark.parametrize(("clients", "writes"), [(8, 10), (50, 20)])
def test_writers_at_once(tmp_path: Path, clients: int, writes: int, wal: bool) -> None:
    root = project(tmp_path, wal=wal)
    journal = "WAL" if wal else "rollback journal"
    with topic(f"{clients} processes x {writes} writes at once, {journal}") as table:
        servers = [ours(root)]
        if clients < 50:  # fifty of the others do not fit into the memory of a small machine
            servers.append(plain_sdk(root))
        for server in [*servers, *there(SAME_TOOLS[:2], root, table.note)]:
            before = count_rows(root)
            writers, taken = at_once(server, clients, writes)
            each = [one for writer in writers for one in writer.taken]
            table.add(server.name, "asked for", clients * writes)
            table.add(server.name, "acknowledged", len(each))
            table.add(server.name, "kept", count_rows(root) - before)
            table.add(server.name, "refused", sum(writer.refused for writer in writers))
            table.add(server.name, "a write ms", *each)
            table.add(server.name, "the longest ms", max(each))
            table.add(server.name, "all of them ms", taken)
