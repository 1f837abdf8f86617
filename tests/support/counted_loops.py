"""Loops whose processes count their connections and the files that they open."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from loop_projects import LoopProject

AUDITED = """
import atexit, collections, json, sys
counts, out = collections.Counter(), sys.argv.pop(1)

def count(event, arguments):
    reads = event == "open" and arguments[2]  # io.open reports the file once more, without flags
    if reads or event == "sqlite3.connect":
        name = str(arguments[0])
        for part in ("ralph.db", "ralphgen.toml"):
            if part in name:
                counts[f"{event} {part}"] += 1

def counted(connect):
    def counting(dsn):
        counts["login"] += 1
        return connect(dsn)
    return counting

try:
    from ralphgen.runtime.engine.postgresql import driver
    driver.connect = counted(driver.connect)
except ImportError:
    pass
sys.addaudithook(count)
atexit.register(lambda: open(out, "w").write(json.dumps(counts)))
from ralphgen.__main__ import main
sys.exit(main())
"""


def counted_loop(folder: Path, sessions: int, dsn: str = "") -> Counter[str]:
    """How often the process of a loop logs in, and opens config and database."""
    folder.mkdir()
    project = LoopProject(folder, sessions, {}, config="[loop]\n", dsn=dsn)
    os.utime(project.root / ".ralph/ralphgen.toml", (time.time() - 60,) * 2)
    out = folder / "counts.json"
    command = [sys.executable, "-c", AUDITED, str(out), "loop", "--project", str(project.root)]
    environment = {**os.environ, **project.environment}
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=120
    )
    assert sessions == len(project.log("begin")), done.stderr
    return Counter(json.loads(out.read_text(encoding="utf-8")))
