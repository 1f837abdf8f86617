"""The watched files of sessions and loops on pages: few, regardless of their number."""

import os
from pathlib import Path

import pytest

from ralphgen.board.live import MOST_FOLLOWED, Board, stream_name, tree_name
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.session import hold
from ralphgen.sessions.end import Lock
from ralphgen.sessions.store import CONTEXT, launched_in


class Watched:
    """The sessions of a project, watched by a clock that is set."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        self.root = root
        self.shelf = root / SESSIONS
        self.watch = Board(root, lambda: self.now)

    def session(self, name: str) -> Path:
        folder = self.shelf / name
        folder.mkdir(parents=True)
        for file in (CONTEXT, "lock", "transcript.jsonl", "calls.jsonl"):
            (folder / file).touch()
            os.utime(folder / file, (1e9, 1e9))
        return folder

    def changed(self, *, later: bool) -> set[str]:
        self.now += 10.0 if later else 0.1
        names = {*self.watch.check()}
        return {name for name in names if name.startswith(("stream-", "tree-"))}


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def both(name: str) -> set[str]:
    return {stream_name(name), tree_name(name)}


def test_a_session_that_a_page_shows_is_followed_and_no_other(watched: Watched) -> None:
    shown, other = watched.session("shown"), watched.session("other")
    watched.watch.follow("shown")
    before = watched.changed(later=True)
    for folder in (shown, other):
        (folder / "calls.jsonl").write_text("{}\n", encoding="utf-8")
    after = watched.changed(later=True)

    assert (set(), both("shown")) == (before, after)
    assert set() == watched.changed(later=True)


def test_a_message_after_the_page_and_before_the_first_check_is_announced(
    watched: Watched,
) -> None:
    folder = watched.session("s")
    watched.changed(later=True)
    watched.watch.follow("s")
    (folder / "transcript.jsonl").write_text("{}\n", encoding="utf-8")
    watched.watch.follow("s")  # another page of it

    assert both("s") == watched.changed(later=True)


def test_a_session_that_says_something_is_looked_at_every_time(watched: Watched) -> None:
    folder = watched.session("s")
    watched.watch.follow("s")
    watched.changed(later=True)
    (folder / "transcript.jsonl").write_text("{}\n", encoding="utf-8")
    watched.changed(later=True)
    (folder / "transcript.jsonl").write_text("{}\n{}\n", encoding="utf-8")

    assert {stream_name("s")} == watched.changed(later=False)


def test_an_agent_that_begins_or_ends_is_told_of(watched: Watched) -> None:
    folder = watched.session("s")
    watched.watch.follow("s")
    watched.changed(later=True)
    with launched_in(folder):
        assert both("s") == watched.changed(later=True)
    assert both("s") == watched.changed(later=True)


def test_of_very_many_pages_the_newest_are_followed(watched: Watched) -> None:
    names = [f"s-{number}" for number in range(MOST_FOLLOWED + 1)]
    folders = [watched.session(name) for name in names]
    for name in names:
        watched.watch.follow(name)
    watched.changed(later=True)
    for folder in folders:
        (folder / "calls.jsonl").write_text("{}\n", encoding="utf-8")

    assert {one for name in names[1:] for one in both(name)} == watched.changed(later=True)


def test_a_lock_is_opened_again_only_where_a_server_may_hold_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Noted(Lock):
        def __init__(self, folder: Path) -> None:
            opened.append(folder.name)
            super().__init__(folder)

    monkeypatch.setattr("ralphgen.board.live.SessionLock", Noted)
    held: list[int] = []
    monkeypatch.setattr("ralphgen.runtime.session._held", held)
    idle, used = watched.session("idle"), watched.session("used")
    now = [0.0]
    watch = Board(watched.root, lambda: now[0])

    def looked() -> tuple[bool, list[str]]:
        opened.clear()
        now[0] += 10
        return "sessions" in watch.check(), [*opened]

    first = looked()
    same = looked()
    hold(str(used / CONTEXT))
    running = looked()
    os.close(held.pop())
    over = looked()

    assert (False, ["idle", "used"]) == first
    assert (False, []) == same
    assert [(True, ["used"])] * 2 == [running, over]
    assert idle.exists()
