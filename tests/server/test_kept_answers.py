"""What a server says of itself is kept for later starts, for each view of the project alone."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from driving import context_for, edit, on_context, query, server_command
from frames import HANDSHAKES, STATELESS, opening, request
from settled import settle, unkept_project
from wire import refused

RECIPES = ("interactive", "manual", "task_execution", "discuss")
ASKED: tuple[tuple[str, dict[str, object]], ...] = (
    ("tools/list", {}),
    ("tools/call", {"name": "get_project_info", "arguments": {}}),
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/templates/list", {}),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is kept, of this test alone."""
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "bytecode"


@pytest.fixture
def own(tmp_path: Path, home: Path) -> Path:
    return unkept_project(tmp_path / "project", home)


def answered(root: Path, *arguments: str, version: str = HANDSHAKES[-1]) -> str:
    """Return all that a start says to the same requests."""
    lines = [request(version, *asked, number) for number, asked in enumerate(ASKED)]
    return said(server_command(root, *arguments), [*opening(version), *lines])


def said(command: Sequence[str], lines: Sequence[bytes]) -> str:
    done = subprocess.run(command, input=b"".join(lines), capture_output=True, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("version", [HANDSHAKES[-1], STATELESS])
def test_each_start_answers_as_one_that_looks_at_its_tools(own: Path, version: str) -> None:
    """Also after the first call, and in each of several sessions that start in turn."""
    contexts = [on_context(context_for(own, recipe)) for recipe in RECIPES]
    fresh = [answered(own, "--trust-edited", *context, version=version) for context in contexts]
    for _ in range(4):
        assert fresh == [answered(own, *context, version=version) for context in contexts]
    assert len(RECIPES) == len({*fresh})


def test_a_list_looks_at_no_tools_once_it_was_kept(own: Path) -> None:
    """Only what comes after it does."""
    options = ["-X", "importtime"]
    listed = [*opening(HANDSHAKES[-1]), request(HANDSHAKES[-1], "tools/list", {}, 1)]
    found = []
    for _ in range(4):
        command = server_command(own)
        done = subprocess.run(
            [command[0], *options, *command[1:]],
            input=b"".join(listed),
            capture_output=True,
            check=True,
        )
        found.append(b"runtime.protocol.handlers" in done.stderr)

    assert [True, True, False, False] == found


def test_nothing_is_kept_of_a_session_that_was_made(own: Path, home: Path) -> None:
    """It starts a few servers, once."""
    folder = own / ".ralph/sessions/one"
    folder.mkdir(parents=True)
    path = context_for(own, "task_execution").rename(folder / "context.json")
    for _ in range(4):
        answered(own, *on_context(path))

    assert [] == [*home.glob("answers-*")]


def test_a_policy_that_was_generated_anew_counts_at_once(own: Path) -> None:
    before = [answered(own) for _ in range(3)][-1]
    more = 'POLICY.recipes["interactive"].tools = {"ralph": ["list_tasks"]}\n'
    edit(own, "policy.py", more=more)

    assert 1 < before.splitlines()[1].count('"inputSchema"')
    for _ in range(3):
        settle()
        assert 1 == answered(own).splitlines()[1].count('"inputSchema"')


def test_what_refuses_a_start_still_does_once_answers_were_kept(own: Path) -> None:
    path = context_for(own, "manual")
    for _ in range(3):
        answered(own, *on_context(path))
    query(own, "UPDATE metadata SET project_title = 'Another'")
    assert "it belongs to a project with the title" in refused(own, *on_context(path))

    query(own, "ALTER TABLE tasks DROP COLUMN hints")
    assert 'column "tasks.hints" is gone' in refused(own, *on_context(path))


@pytest.mark.parametrize("size", [0, 20, 400])
def test_damaged_answers_are_made_anew(own: Path, home: Path, size: int) -> None:
    whole = [answered(own) for _ in range(3)][-1]
    (kept,) = home.glob("answers-*")
    kept.write_bytes(kept.read_bytes()[:size])

    assert whole == answered(own) == answered(own)
    assert size < kept.stat().st_size


def test_answers_that_others_may_write_do_not_count(own: Path, home: Path) -> None:
    whole = [answered(own) for _ in range(3)][-1]
    (kept,) = home.glob("answers-*")
    kept.write_bytes(kept.read_bytes().replace(b"list_tasks", b"lost_tasks"))
    kept.chmod(0o666)

    assert whole == answered(own)
