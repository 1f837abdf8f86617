"""One session as it stands: what it is about, who works in it, and what may be done with it."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralphgen.agents.agent import NOTHING_USED, Usage
from ralphgen.board.agents.lines import count_lines
from ralphgen.board.agents.stream import StreamQuery, session_stream, used_so_far
from ralphgen.board.stored_text import line
from ralphgen.board.views.record import SessionLine, session_on_record
from ralphgen.board.views.sessions import SessionRow, session_row
from ralphgen.board.views.task_record import ChangeLine, RunLine, change_line, run_line
from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.rows import Rows, project_rows
from ralphgen.kits.registry import KITS
from ralphgen.ledger.record import SessionRecord, base_of, changes_by, recorded_sessions, runs_by
from ralphgen.ledger.tables import state_of
from ralphgen.project.database import open_database
from ralphgen.project.git import ask_git, begin_of_git
from ralphgen.project.inspect import read_schema
from ralphgen.runtime.files import AT_ONCE, NO_LINK
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.main_tree import home_of, repository_of
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.sessions.store import TRANSCRIPT, launcher_of, session_folder, stored_session

LONGEST_DIFF = 200_000  # bytes of a diff
FILES = 100  # that are shown, and as many new ones
LONGEST_NEW_FILE = 20_000  # bytes of a new file
PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=dirty"),  # git would start filters in them
)
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BEGIN = re.compile(r"^diff --git ", re.MULTILINE)
HUNK = re.compile(r"^@@", re.MULTILINE)
GONE = "its worktree has moved on to other work, or no longer exists"
NO_GIT = "git has no record of its files"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """How a file differs; `added` and `removed` count lines of what is shown."""

    path: str
    text: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """How a work tree differs from `base`, the begin of a commit; `problem` says why none shows.

    `cut` says that there is more than is shown.
    """

    base: str
    files: tuple[FileDifference, ...]
    cut: bool
    problem: str = ""


def tree_diff(root: Path, tree: str | None, base: str | None) -> TreeDiff:
    """Return how a session's work tree differs by now from what it was at the commit `base`.

    `tree` is on record, None for the project's own folder; nothing is asked of a folder that is no
    linked work tree of the project's repository. Without a base it is the last commit.
    """
    place = root if tree is None else Path(tree)
    if tree is not None and home_of(tree) != home_of(str(root)):
        return TreeDiff("", (), cut=False, problem=GONE)
    repository = repository_of(str(place))
    if repository is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    since = base if base is not None and COMMIT.fullmatch(base) else "HEAD"
    commit = (ask_git(top, ["rev-parse", "--verify", since]) or b"").decode().strip()
    text = begin_of_git(top, ["diff", *PLAIN, commit, "--"], LONGEST_DIFF) if commit else None
    if text is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    listed = begin_of_git(top, ["ls-files", "-z", "--others", "--exclude-standard"], LONGEST_DIFF)
    new = [os.fsdecode(name) for name in (listed or b"").split(b"\0")[:-1]]  # the last may be cut
    changed = [*_files(text.decode(errors="replace"))]
    made = [_new_file(top, name) for name in new[:FILES]]
    cut = len(text) >= LONGEST_DIFF or len(changed) > FILES or len(new) > FILES
    return TreeDiff(since[:10], (*changed[:FILES], *made), cut=cut)


def merge_diff(root: Path, merged: str) -> TreeDiff:
    """Return what the commit that merged a session's work has changed in the base branch."""
    repository = repository_of(str(root))
    if repository is None or not COMMIT.fullmatch(merged):
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    text = begin_of_git(top, ["diff", *PLAIN, f"{merged}^1", merged, "--"], LONGEST_DIFF)
    if text is None:
        return TreeDiff("", (), cut=False, problem=f"git has no commit {merged[:10]}")
    changed = [*_files(text.decode(errors="replace"))]
    cut = len(text) >= LONGEST_DIFF or len(changed) > FILES
    return TreeDiff(f"{merged[:10]}^", tuple(changed[:FILES]), cut=cut)


def _files(text: str) -> Iterator[FileDifference]:
    """Yield the parts of a diff, each of one file."""
    for part in BEGIN.split(text)[1:]:
        head, _, rest = part.partition("\n")
        hunk = HUNK.search(rest)
        yield _file_diff(head.rpartition(" b/")[2] or head, rest[hunk.start() :] if hunk else rest)


def _new_file(top: Path, name: str) -> FileDifference:
    """Return a file that git does not track as a diff in which all is new; no link is followed."""
    try:
        file = os.open(top / name, os.O_RDONLY | AT_ONCE | NO_LINK)
        try:
            data = os.read(file, LONGEST_NEW_FILE)
        finally:
            os.close(file)
    except OSError:
        return FileDifference(line(name), "a new file that cannot be read", 0, 0)
    if b"\0" in data:
        return FileDifference(line(name), "a new binary file", 0, 0)
    lines = data.decode(errors="replace").splitlines()
    more = "\n…" if len(data) == LONGEST_NEW_FILE else ""
    return _file_diff(name, "\n".join(f"+{one}" for one in lines) + more)


def _file_diff(name: str, body: str) -> FileDifference:
    lines = without_controls(body).rstrip("\n").split("\n")
    added, removed = (sum(one[:1] == sign for one in lines) for sign in "+-")
    return FileDifference(line(name.strip('"')), "\n".join(lines), added, removed)


OVER = "the session is not running here, and its worktree may contain other work by now"
LONGEST_ID = 200  # characters of an id
CHANGES, RUNS = 100, 50
"""Of a session the newest so many are shown."""


@dataclass(frozen=True, slots=True)
class SessionAtWork:
    """A session: `row` is its folder, `record` what the ledger has of it; one may be None.

    `launched` says that an agent works in it that can be stopped from here, and `used` what that
    has said of turns, tokens and cost until now; `calls` counts those of its servers.
    """

    session_id: str
    row: SessionRow | None
    record: SessionLine | None
    launched: bool
    used: Usage
    calls: int

    @property
    def works(self) -> bool:
        """Return whether an agent or a server of the session runs on this machine."""
        return self.launched or (self.row is not None and self.row.running)

    @property
    def task(self) -> str:
        """Return the task that it is about, empty where it is about none."""
        if self.record is not None:
            return "" if self.record.task is None else str(self.record.task)
        return self.row.task if self.row is not None else ""


@dataclass(frozen=True, slots=True)
class SessionWork:
    """What a session has changed and proved, the newest first; `more` says that there are others.

    It is None where the project has no ledger.
    """

    changes: tuple[ChangeLine, ...]
    runs: tuple[RunLine, ...]
    more: bool


def is_known(root: Path, session_id: str) -> bool:
    """Return whether there is a session of this id, here or on record."""
    if not session_id.isprintable() or len(session_id) > LONGEST_ID:
        return False
    return stored_session(root, session_id) is not None or _record(root, session_id) is not None


def read_session(root: Path, session_id: str, *, ours: bool) -> SessionAtWork | None:
    """Return a session of the project in `root`, None where there is none of this id.

    `ours` says that a command that this board has started watches an agent in it. Raises
    `ProjectError` where the database cannot be read.
    """
    stored, record = stored_session(root, session_id), _record(root, session_id)
    if stored is None and record is None:
        return None
    folder = None if stored is None else stored.folder
    launched = folder is not None and launcher_of(folder) is not None
    if ours and record is not None and record.outcome is None:
        launched = True  # though its mark is gone
    agent = record.agent or "" if record is not None else ""
    line = None
    if record is not None:
        with project_rows(root, KITS) as (rows, _):
            line = session_on_record(rows, record)
    return SessionAtWork(
        session_id=session_id,
        row=None if stored is None else session_row(root, stored),
        record=line,
        launched=launched,
        used=used_so_far(root, folder, agent) if launched and folder else NOTHING_USED,
        calls=0 if folder is None else count_lines(folder / CALLS),
    )


def stream_values(root: Path, session_id: str, asked: StreamQuery) -> Mapping[str, object]:
    """Return what the section of a session's stream shows."""
    record = _record(root, session_id)
    agent = record.agent or "" if record is not None else ""
    folder = session_folder(root, session_id)
    if folder is None:
        raise ProjectError(
            f'the session "{session_id}" has no files on this machine',
            "open the board on the machine that ran it; it deletes old sessions",
        )
    stream = session_stream(root, folder, agent, asked)
    return {"view": stream, "kept": (folder / TRANSCRIPT).exists(), "asked": asked}


def tree_of(root: Path, session_id: str) -> TreeDiff:
    """Return how the files differ: of a session that goes on by now, of one that was merged then.

    Of others the work tree holds more than theirs by now.
    """
    record = _record(root, session_id)
    if record is not None and record.merged:
        return merge_diff(root, record.merged)
    stored = stored_session(root, session_id)
    goes_on = stored is not None and (stored.running or launcher_of(stored.folder) is not None)
    if not goes_on:
        return TreeDiff("", (), cut=False, problem=OVER)
    with open_database(root) as connection:
        known = state_of(connection).version is not None
        base = base_of(Rows(connection, {}), session_id) if known else None
    return tree_diff(root, record.worktree if record is not None else None, base)


def work_of(root: Path, session_id: str) -> SessionWork | None:
    """Return what a session has changed and proved; raises `ProjectError` as `read_session`."""
    record = _record(root, session_id)
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return None
        schema = read_schema(connection, root, KITS)
        rows = Rows(connection, {})
        changes = changes_by(rows, session_id, CHANGES + 1)
        task = record.task_id if record is not None else None
        runs = [] if task is None else runs_by(rows, session_id, task, RUNS)
    return SessionWork(
        changes=tuple(change_line(one, schema.hidden) for one in changes[:CHANGES]),
        runs=tuple(map(run_line, runs)),
        more=len(changes) > CHANGES,
    )


def _record(root: Path, session_id: str) -> SessionRecord | None:
    return recorded_sessions(root, [session_id]).get(session_id)
