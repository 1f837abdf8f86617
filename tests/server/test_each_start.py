"""A server of any kit answers the same at its first start and, from its cache, at later ones."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from command_line import initialized
from conversations import line
from frames import opening

from ralphgen.kits.registry import KITS

NAMES = [kit.key for kit in KITS if not kit.any_schema]
ASKED = b"".join([*opening("2025-11-25"), line("tools/list", id=2)]).decode()


@pytest.mark.thorough
def test_each_kit_answers_the_same_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its modules are looked for one by one, then kept as one, then read as one."""
    project = initialized(tmp_path / "p", *(word for name in NAMES for word in ("--kit", name)))
    alone = tmp_path / "alone"
    (alone / ".ralph").mkdir(parents=True)
    text = 'kits = ["tables"]\n[database]\npath = "app.db"\n[tables.notes]\n'
    (alone / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    with closing(connect(alone / "app.db")) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    initialized(alone)
    home = tmp_path / "home"
    monkeypatch.setenv("RALPHGEN_HOME", str(home))
    for name, root in (*((name, project) for name in NAMES), ("tables", alone)):
        command = [sys.executable, "-I", "-S", str(root / ".ralph/mcp/server.py"), name]
        done = [
            subprocess.run(command, input=ASKED, capture_output=True, text=True, check=False)
            for _ in range(4)
        ]

        assert [(0, "")] * 4 == [(one.returncode, one.stderr) for one in done], name
        assert '"id":2' in done[0].stdout
        assert [done[0].stdout] * 4 == [one.stdout for one in done], name
    assert any((home / "servers").iterdir())
