"""Shared connections to a SQLite file: no other code of the process opens the file meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from loop_projects import LoopProject

pytestmark = pytest.mark.slow
HOLDS = """
import asyncio, json, sqlite3, subprocess, sys, traceback
from contextlib import suppress
from pathlib import Path

WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
opened = []

def notice(event, arguments):
    own = "opened_files.py"  # keeps its descriptor of the index until the index is gone
    if event == "open" and str(arguments[0]).endswith(("ralph.db", "-wal", "-shm", "-journal")):
        lines = traceback.format_stack()
        if not any(own in line for line in lines):
            opened.append("".join(lines[-6:]))

from ralphgen.board.project import Board
from ralphgen.board.web import pages
from ralphgen.board.web.app import Site
from ralphgen.cli.main import main
from ralphgen.project.database import opened_database, shared_connections

root = Path(sys.argv[1])

def command(*words):
    sys.argv = ["ralphgen", *words, "--project", str(root)]
    with suppress(SystemExit):
        main()

async def pages_of(app):
    return [await get(app, place.address) for place in pages.PLACES]

async def get(app, path):
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    answers = []
    async def receive():
        await asyncio.sleep(60)
    async def send(message):
        answers.append(message)
    await app(scope, receive, send)
    return answers[0]["status"]

with shared_connections(root), opened_database(root) as held:
    sys.addaudithook(notice)

    def work():
        for words in (("doctor",), ("db", "backup"), ("trust", "--yes"), ("check",)):
            command(*words)
        board = Board(root)
        board.check()
        statuses = asyncio.run(asyncio.wait_for(pages_of(Site(board).app), 60))
        other = subprocess.run([sys.executable, "-c", WRITE, held.path], capture_output=True)
        return statuses, other.stderr.decode().splitlines()[-1:]

    statuses, refused = held.writing(work)

print(json.dumps([opened, statuses, refused]))
"""
"""Does with a write of its own open what people do, and has another process try to write."""


def test_all_parts_leave_the_locks_of_a_connection_alone(tmp_path: Path) -> None:
    root = LoopProject(tmp_path, 2, {}).root

    done = subprocess.run(
        [sys.executable, "-c", HOLDS, str(root)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    opened, statuses, refused = json.loads(done.stdout.splitlines()[-1])
    assert opened == [], opened[0]
    assert {200} == {*statuses}
    assert refused == ["sqlite3.OperationalError: database is locked"]
