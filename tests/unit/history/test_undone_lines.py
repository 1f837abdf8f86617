"""The lines of a session leave the state files, each once, wherever an undo is killed."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from histories import Writer, make_database

from ralphgen.ledger.undo import finish_undone, undo_session
from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.files.entry_log import write_entry

FIRST = "- 2026-11-20T10:00:00Z [manual] first"
SAME = "- 2026-11-20T11:00:00Z [manual] the same"
LONG = "- 2026-11-20T12:00:00Z [manual] with\n    a second line"
LAST = "- 2026-11-20T13:00:00Z [manual] last"
STEPS = 14  # more than there are


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_database(tmp_path)
    other, own = (Writer(tmp_path / DATABASE, session) for session in ("other", "own"))
    for writer, file, line in (
        (other, "progress.txt", FIRST),
        (other, "progress.txt", SAME),
        (own, "progress.txt", SAME),
        (own, "progress.txt", LONG),
        (own, "learnings.txt", SAME),
        (other, "progress.txt", LAST),
    ):
        append(tmp_path, writer, file, line)
    own.write("INSERT INTO homes VALUES ('x', NULL)")
    for writer in (other, own):
        writer.database.close()
    return tmp_path


def append(root: Path, writer: Writer, file: str, line: str) -> None:
    """A line that a session appends, on record."""
    write_entry(str(root / ".ralph" / file), line)
    writer.database.writing(lambda: writer.journal.add_line(file, line))


def lines(root: Path, file: str = "progress.txt") -> list[str]:
    """The lines of a state file."""
    return (root / ".ralph" / file).read_text(encoding="utf-8").splitlines()


def homes(root: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        return connection.execute("SELECT name FROM homes").fetchall()


def test_they_leave_and_come_back_to_their_place(root: Path) -> None:
    before = {file: lines(root, file) for file in ("progress.txt", "learnings.txt")}
    (root / ".ralph/progress.txt").chmod(0o640)
    undone = undo_session(root, "own")

    assert [FIRST, SAME, LAST] == lines(root)
    assert [] == lines(root, "learnings.txt")
    assert 0o640 == (root / ".ralph/progress.txt").stat().st_mode & 0o777
    assert [] == [*(root / ".ralph/backups").iterdir()]
    undo_session(root, undone.session)
    # A line that is still there is not written a second time.
    expected = [line for line in before["progress.txt"] if line != SAME]
    assert expected == [line for line in lines(root) if line != SAME]
    assert before["learnings.txt"] == lines(root, "learnings.txt")


def test_a_second_undo_takes_no_line_of_another_session(root: Path) -> None:
    first = undo_session(root, "own")
    after = lines(root)
    again = undo_session(root, "own")

    assert ([], after) == ([*again.lines], lines(root))
    undo_session(root, first.session)
    undo_session(root, "own")
    assert after == lines(root)


def test_a_line_removed_by_the_user_is_harmless(root: Path) -> None:
    (root / ".ralph/progress.txt").write_text(f"{FIRST}\n", encoding="utf-8")

    assert not undo_session(root, "own").has_remainder
    assert [FIRST] == lines(root)


def test_the_last_of_equal_lines_remains_with_another_session(root: Path) -> None:
    (root / ".ralph/progress.txt").write_text(f"{FIRST}\n{SAME}\n", encoding="utf-8")
    undo_session(root, "own")

    assert [FIRST, SAME] == lines(root)


def test_a_file_that_is_a_link_is_left_and_named(root: Path) -> None:
    target = root / "elsewhere.txt"
    (root / ".ralph/progress.txt").rename(target)
    (root / ".ralph/progress.txt").symlink_to(target)
    before = target.read_text(encoding="utf-8")
    undone = undo_session(root, "own")

    assert before == target.read_text(encoding="utf-8")
    assert {"the file is a link"} == {line.left for line in undone.lines if line.left}


def killed_at(step: int, work: Callable[[], object], patch: pytest.MonkeyPatch) -> bool:
    """Whether a process that does the work was killed before or after a step; else it is done."""
    process = os.fork()
    if process:
        _, status = os.waitpid(process, 0)
        assert os.waitstatus_to_exitcode(status) in {0, -signal.SIGKILL}
        return os.waitstatus_to_exitcode(status) != 0
    passed = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal passed
            for act in (None, function):
                result = act(*given, **named) if act is not None else None
                if passed == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                passed += 1
            return result

        return call

    try:
        for owner, name in (
            (Path, "touch"),
            (Database, "_commit"),
            (os, "fsync"),
            (os, "chmod"),
            (os, "replace"),
        ):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.parametrize("step", range(STEPS + 4))
def test_a_killed_undo_is_finished_by_the_next_command(
    root: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_killed = killed_at(step, lambda: undo_session(root, "own"), monkeypatch)
    if homes(root):  # it was killed before it had done anything
        assert was_killed
        assert [FIRST, SAME, SAME, *LONG.splitlines(), LAST] == lines(root)
        undo_session(root, "own")
    writer = Writer(root / DATABASE, "later")
    append(root, writer, "progress.txt", "- 2026-11-20T14:00:00Z [manual] later")
    writer.database.close()
    finish_undone(root)
    finish_undone(root)

    assert [FIRST, SAME, LAST, "- 2026-11-20T14:00:00Z [manual] later"] == lines(root)
    assert [] == lines(root, "learnings.txt")
    assert [] == homes(root)
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        assert [] == connection.execute("SELECT * FROM ralphgen_unfinished").fetchall()
    assert was_killed or step >= STEPS
