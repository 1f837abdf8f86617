"""The start of servers."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from command_line import initialized
from conversations import line
from driving import create_project, server_command
from frames import opening
from wire import checked, imported, running

from ralphgen import __version__
from ralphgen.kits.registry import KITS

# The modules that a start may load besides the server's own ones and their requirements. `hashlib`
# would load OpenSSL, `dataclasses` costs 5 ms, `pathlib` 4 ms.
LIGHT = ("gc", "_functools", "_json", "_sqlite3", "_sha2", "_sha256")
HEAVY = ("dataclasses", "hashlib", "pathlib", "typing", "inspect", "asyncio", "logging", "random")
HEAVY_PACKAGES = ("mcp", "anyio", "pydantic", "ralphgen", "jinja2", "typer")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("start"))
    for _ in range(2):  # work that is done once per set of files happens here
        checked(root)
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        server_command(root, *arguments), input="", capture_output=True, text=True, check=False
    )


def test_check_loads_only_a_few_modules_of_the_standard_library(project: Path) -> None:
    bare = imported("-c", "pass")
    server = project / ".ralph" / "mcp"
    loaded = imported(str(server / "server.py"), "--check")
    own = {path.relative_to(server).with_suffix("").parts[0] for path in server.rglob("*.py")}
    more = {name for name in loaded - bare if name.partition(".")[0] not in own}

    assert set(LIGHT) >= more
    assert not loaded & {*HEAVY, *HEAVY_PACKAGES}


def test_help_says_how_to_start_it(project: Path) -> None:
    found = run(project, "--help")

    assert (0, "") == (found.returncode, found.stderr)
    assert found.stdout.startswith("usage: python server.py [KIT] [--context FILE --sha256 HEX]")
    assert "kits: ralph" in found.stdout


def test_version_is_the_version_of_the_generator(project: Path) -> None:
    found = run(project, "--version")

    assert (0, f"ralphgen {__version__}\n", "") == (found.returncode, found.stdout, found.stderr)


def test_a_closed_standard_input_is_refused_in_one_line(project: Path) -> None:
    found = subprocess.run(
        ["/bin/sh", "-c", '"$0" "$@" <&-', *server_command(project)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, "") == (found.returncode, found.stdout)
    assert 1 == len(found.stderr.splitlines())
    assert "standard input or output is closed" in found.stderr


def test_a_client_that_does_not_read_the_log_is_served_all_the_same(project: Path) -> None:
    with running(project) as server:  # without a context it has something to log at once
        assert server.process.stderr is not None
        server.process.stderr.close()
        server.shake_hands()
        server.leave()

        assert 0 == server.end()


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
