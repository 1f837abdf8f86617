"""Files that an agent can forge or delete next to its session: marks and files of loops."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from lifelines import until
from loop_projects import PATIENCE, LoopProject, wait_until_gone

from ralphgen.loop.record import ask_loops, read_events, recorded_loop, stored_loops
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import (
    MARK,
    HeldFile,
    ask_to_stop,
    has_stopped,
    launched_in,
    launcher_of,
)

LOOP = "loop-20260101T000000Z-00aa"


def taken_away(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def written_over(path: Path) -> None:
    path.write_bytes(b"1\n")


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def full_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


HARMS = pytest.mark.parametrize("harm", [taken_away, emptied, written_over, linked, full_folder])


@HARMS
def test_a_mark_is_restored(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with launched_in(tmp_path) as asked:
        harm(tmp_path / MARK)

        assert not asked()
        assert os.getpid() == launcher_of(tmp_path)
        assert ask_to_stop(tmp_path)
        assert asked()
    assert has_stopped(tmp_path, 0)


def test_a_mark_is_restored_despite_the_lock_of_another_process(tmp_path: Path) -> None:
    with launched_in(tmp_path) as asked, closing(HeldFile(tmp_path / MARK, b"1\n")):
        assert not asked()
        assert os.getpid() == launcher_of(tmp_path)


def test_a_request_is_not_lost_with_its_mark(tmp_path: Path) -> None:
    with launched_in(tmp_path) as asked:
        ask_to_stop(tmp_path)
        (tmp_path / MARK).unlink()

        assert asked()


def test_no_one_recreates_the_folder_of_a_session(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    with launched_in(folder) as asked:
        shutil.rmtree(folder)

        assert not asked()
        assert not folder.exists()


@HARMS
def test_the_files_of_a_loop_are_restored(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with recorded_loop(tmp_path, {}) as record:
        record.write({"event": "begin", "workers": 1})
        (before,) = stored_loops(tmp_path)
        harm(before.path)
        harm(before.path.with_suffix(".asks"))
        nothing = [*record.new_requests()]
        (stored,) = stored_loops(tmp_path)
        ask_loops(tmp_path, "pause")
        asked = [*record.new_requests()]

    assert ([], ["pause"]) == (nothing, asked)
    assert (before.loop_id, True, "") == (stored.loop_id, stored.running, stored.doubt)
    assert os.getpid() == read_events(stored)[0]["pid"]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_loop_is_visible_and_stoppable_after_an_agent_removed_its_files(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [["begin", "hang"]]})
    loop = project.started()
    project.wait_for("begin", 1)
    for path in (project.root / SESSIONS).glob("loop-*"):
        path.unlink()
    assert until(lambda: any(one.running for one in stored_loops(project.root)))
    kinds = [told["event"] for told in read_events(stored_loops(project.root)[0])]
    ask_loops(project.root, "stop-now")
    _, said = loop.communicate(timeout=PATIENCE)
    wait_until_gone(project.root)

    assert ["start", "target", "backup", "begin"] == kinds[:4]
    assert 143 == loop.returncode, said
    assert {1: "pending"} == project.statuses()


@contextmanager
def hold_file(root: Path, name: str, begin: bytes) -> Iterator[Path]:
    """Hold a file among the files of loops."""
    path = root / SESSIONS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(HeldFile(path, begin)):
        yield path


@pytest.mark.parametrize(
    "name",
    ["loop-1.jsonl", "loop-99990101T000000Z-00aa.jsonl", "loop-20260101T000000Z-00aa.jsonl.jsonl"],
)
def test_a_file_that_is_called_as_no_loop_is_none(tmp_path: Path, name: str) -> None:
    with hold_file(tmp_path, name, b'{"event": "start", "pid": %d}\n' % os.getpid()):
        assert [] == stored_loops(tmp_path)


@pytest.mark.parametrize(
    ("begin", "doubt"),
    [
        (b"", "it does not start like the file of a loop"),
        (b"[" * 100_000, "it does not start like the file of a loop"),
        (b'{"event": "stop", "pid": 1}\n', "it does not start like the file of a loop"),
        (b'{"event": "start", "pid": "1/../self"}\n', "it does not start like the file of a loop"),
        (b'{"event": "start", "pid": true}\n', "it does not start like the file of a loop"),
        (b'{"event": "start", "pid": -1}\n', "it does not start like the file of a loop"),
        (b'{"event": "start", "pid": 999999999}\n', "not by process 999999999, which it names"),
        (b'{"event": "start", "pid": 1}\n', "not by process 1, which it names"),
    ],
)
def test_another_holder_of_the_file_is_not_a_loop(tmp_path: Path, begin: bytes, doubt: str) -> None:
    with hold_file(tmp_path, f"{LOOP}.jsonl", begin):
        (stored,) = stored_loops(tmp_path)

    assert (True, doubt) == (stored.running, stored.doubt)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_loop_must_be_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / SESSIONS / f"{LOOP}.jsonl"
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        (tmp_path / "events").write_bytes(b'{"event": "start", "pid": 1}\n')
        path.symlink_to(tmp_path / "events")

    assert [] == stored_loops(tmp_path)
