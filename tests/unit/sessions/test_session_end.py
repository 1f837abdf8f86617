"""Ending a session: its files, its servers, and no other file or process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import snapshot
from driving import create_project
from making_sessions import empty_sessions, opened
from wire import Wire, refused, running

from ralphgen.errors import MissingError, ProjectError
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.end import end_session
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import stored_sessions

pytestmark = pytest.mark.slow

FILES = ("context.json", "lock", "mcp.json")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("ended") / "a project")


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


def arguments(session: PreparedSession) -> list[str]:
    """Return the arguments of a client of the session, after the server's path."""
    return list(session.served[0].command[4:])


def has_ended(wire: Wire) -> bool:
    """Return whether a server has closed its output and left with exit code 0."""
    assert wire.process.stdout is not None
    return ("", 0) == (wire.process.stdout.read(), wire.process.wait(timeout=60))


def test_ending_a_session_that_runs_nowhere_sweeps_its_folder(project: Path, shelf: Path) -> None:
    session, other = opened(project, "yap"), opened(project, "yap")
    ended = end_session(project, session.session_id, stops_servers=True)

    assert (session.session_id, True, 0, False) == (
        ended.session.session_id,
        ended.pruned,
        ended.stopped,
        ended.left,
    )
    assert f'ended the session "{session.session_id}": no server can start in it' == (
        ended.sentence
    )
    assert [other.folder] == list(shelf.iterdir())


def test_ending_a_session_ends_its_servers_and_no_others(project: Path, shelf: Path) -> None:
    session, other = opened(project, "yap"), opened(project, "yap")
    with (
        running(project, *arguments(session)) as one,
        running(project, *arguments(session)) as two,
        running(project, *arguments(other)) as third,
    ):
        for wire in (one, two, third):
            wire.shake_hands()
        ended = end_session(project, session.session_id, stops_servers=True)

        assert [True, True] == [has_ended(one), has_ended(two)]
        assert "result" in third.ask("tools/list")
        third.leave()
        third.end()

    assert (True, 2, False) == (ended.pruned, ended.stopped, ended.left)
    assert "2 servers have ended" in ended.sentence
    assert [other.folder] == list(shelf.iterdir())


def test_no_server_starts_in_a_session_that_was_ended(project: Path, shelf: Path) -> None:
    session = opened(project, "yap")
    end_session(project, session.session_id, stops_servers=True)

    assert [] == list(shelf.iterdir())
    assert "create a new session" in refused(project, *arguments(session))


def test_a_server_that_starts_meanwhile_is_ended_or_refuses(project: Path, shelf: Path) -> None:
    session = opened(project, "yap")
    with ExitStack() as stack:
        servers = [running(project, *arguments(session)) for _ in range(6)]
        wires = [stack.enter_context(server) for server in servers]
        ended = end_session(project, session.session_id, stops_servers=True)
        codes = {wire.process.wait(timeout=60) for wire in wires}

    assert codes <= {0, 2, -signal.SIGTERM}
    assert ended.pruned
    assert [] == list(shelf.iterdir())


def waiting(*command: str) -> "subprocess.Popen[bytes]":
    """A process that has begun and waits for its input to end."""
    process = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert b"\n" == process.stdout.readline()
    return process


def test_a_process_that_only_names_the_context_or_holds_the_lock_is_left_alone(
    project: Path, shelf: Path
) -> None:
    session = opened(project, "yap")
    waits = "print(flush=True); sys.stdin.read()"
    holds = "f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH)"
    lock = str(session.folder / "lock")
    with (
        waiting("-c", f"import sys; {waits}", "--context", str(session.context)) as one,
        waiting("-c", f"import fcntl, sys; {holds}; {waits}", lock) as two,
    ):
        ended = end_session(project, session.session_id, stops_servers=True)
        codes = [one.poll(), two.poll()]
        one.communicate(b"")
        two.communicate(b"")

    assert [None, None] == codes
    assert (True, 0, True) == (ended.pruned, ended.stopped, ended.left)
    assert "a running server continues until its client disconnects" in ended.sentence
    assert [] == list(shelf.iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../..",
        ".",
        "",
        "/",
        "/etc",
        "yap/../../..",
        "a\0b",
        "link",
        "file",
        "x.new",
        "\u2028",
    ],
)
def test_no_other_name_ends_anything(project: Path, shelf: Path, tmp_path: Path, name: str) -> None:
    """Not the folders around, not a link, a file, or a session that is not written yet."""
    opened(project, "yap")
    for place in (tmp_path, project / ".ralph" / "mcp", shelf / "x.new"):
        place.mkdir(exist_ok=True)
        for file in FILES:
            (place / file).write_text("mine", encoding="utf-8")
    (shelf / "link").symlink_to(tmp_path)
    (shelf / "file").write_text("mine", encoding="utf-8")
    before = snapshot(project), snapshot(tmp_path)
    with pytest.raises(MissingError) as refusal:
        end_session(project, name, stops_servers=True)

    assert str(refusal.value).replace("\n", "").isprintable()
    assert before == (snapshot(project), snapshot(tmp_path))
    for file in FILES:
        (project / ".ralph" / "mcp" / file).unlink()


def test_files_that_are_links_are_removed_and_not_what_they_lead_to(
    project: Path, shelf: Path, tmp_path: Path
) -> None:
    (shelf / "linked").mkdir()
    for file in FILES:
        (tmp_path / file).write_text("{}", encoding="utf-8")
        (shelf / "linked" / file).symlink_to(tmp_path / file)
    ended = end_session(project, "linked", stops_servers=True)

    assert (True, 0) == (ended.pruned, ended.stopped)
    assert ["{}"] * 3 == [(tmp_path / file).read_text(encoding="utf-8") for file in FILES]
    assert [] == list(shelf.iterdir())


def test_a_shelf_that_is_a_link_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "yap").mkdir(parents=True)
    (outside / "yap" / "context.json").write_text("{}", encoding="utf-8")
    (tmp_path / ".ralph" / "mcp").mkdir(parents=True)
    (tmp_path / SESSIONS).symlink_to(outside)
    with pytest.raises(ProjectError, match="is a link"):
        end_session(tmp_path, "yap", stops_servers=True)

    assert (outside / "yap" / "context.json").is_file()


@pytest.mark.usefixtures("shelf")
def test_a_folder_with_more_in_it_stays_without_what_a_server_needs(project: Path) -> None:
    session = opened(project, "yap")
    (session.folder / "notes.md").write_text("mine", encoding="utf-8")
    ended = end_session(project, session.session_id, stops_servers=True)

    assert not ended.pruned
    assert ended.sentence.endswith("its directory remains, because it contains other files")
    assert ["notes.md"] == [path.name for path in session.folder.iterdir()]


def test_what_cannot_be_removed_is_said(project: Path, shelf: Path) -> None:
    (shelf / "odd" / "context.json").mkdir(parents=True)
    with pytest.raises(ProjectError, match='the session "odd" cannot be ended'):
        end_session(project, "odd", stops_servers=True)


def test_a_session_whose_name_is_not_text_is_ended(project: Path, shelf: Path) -> None:
    (shelf / os.fsdecode(b"a\xff\n")).mkdir()

    assert end_session(project, "a\\udcff\\n", stops_servers=True).pruned
    assert [] == stored_sessions(project)
