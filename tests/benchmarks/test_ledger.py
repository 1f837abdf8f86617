"""The cost of the ledger: the same calls on the same rows, with and without it, in turns."""

from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from figures import topic
from making_sessions import opened
from processes import Server
from projects import project
from proved_projects import LEDGER, MARKER
from test_warm_calls import NEW, WARM_UP, all_on, call_milliseconds

pytestmark = pytest.mark.benchmark

ROUNDS = 600
CALLS = (("get_task", {"id": 100}), ("create_task", NEW), ("update_task", {"id": 100}))


def server(root: Path, name: str) -> Server:
    """The server of a session that was made, which keeps a log of its calls."""
    (command,) = (one.command for one in opened(root, "manual").served if one.kit == "ralph")
    return Server(name, command)


def test_calls_with_and_without_a_ledger(tmp_path: Path) -> None:
    without = project(tmp_path / "without")
    ledger = LEDGER.read_text(encoding="utf-8") + MARKER
    with_ledger = project(tmp_path / "with", more=ledger)
    with topic("Warm calls over stdio, 200 tasks, WAL") as table, ExitStack() as stack:
        talks = all_on(stack, [server(without, "no ledger"), server(with_ledger, "ledger on")])
        for tool, given in CALLS:
            number = count()
            for turn in range(WARM_UP + ROUNDS):
                for talk in talks if turn % 2 else reversed(talks):
                    taken = call_milliseconds(talk, tool, given, number)
                    if turn >= WARM_UP:
                        table.add(talk.server.name, f"{tool} ms", taken)
