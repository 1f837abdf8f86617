"""Keeps a project's rows on a branch of their own in git, and merges those of other clones.

Nothing is checked out: the branch has files of lines as `export` writes them, and no code. The
common past of two clones is git's merge base of what a database has read and written.
"""

import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from filelock import FileLock

from ralphgen.emit.trust import Ask, git_items, require_trust, trusted_settings
from ralphgen.errors import Problem, ProgramError, ProjectError, RalphgenError, Say, plain
from ralphgen.exchange.merge import (
    COMMENTS,
    DEPENDENCIES,
    EditWriter,
    MergedRows,
    RowEdit,
    Side,
    after,
    merge,
    references,
)
from ralphgen.exchange.move import RECIPE, checked, take_time
from ralphgen.exchange.rows import (
    LARGEST,
    LARGEST_NUMBER,
    NAMED_ROWS,
    Key,
    MovedTable,
    Own,
    Row,
    Rows,
    Value,
    encode_row,
    encode_rows,
    encode_value,
    key_label,
    key_order,
    key_values,
    lines_in,
    own_of,
    ralphs_tables,
    read_own,
    refuse_unknown_columns,
    same,
    table_order,
)
from ralphgen.files import decoded
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.tables import no_ledger, now, read_state
from ralphgen.project.database import is_detached, opened_database
from ralphgen.project.git import HASHES, ask_git, object_name, read_files_of_git, settings_of
from ralphgen.project.root import CONFIG, FOLDER, database_place, has_database
from ralphgen.project.schema import FORMERLY, RENUMBERED_BY
from ralphgen.runtime.encoding import read_json
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.ledger import MARKER, PREFIX
from ralphgen.runtime.files.git import GitResult, run_git
from ralphgen.runtime.files.main_tree import repository_of
from ralphgen.runtime.processes.secrets import masked, passed_on
from ralphgen.runtime.tasks import encode
from ralphgen.runtime.tasks.claims import live_claims, prerequisite_lists
from ralphgen.runtime.tasks.status import IMPORTED, record_reason

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

PUSHES = 20  # times that a merge is repeated because of other pushes
HUNDRED = 100  # tasks of one file
SECONDS = 600  # that a fetch or a push may take
TAIL = 2_000  # characters of git's output in an error
TOOL = "sync"  # in the journal
AUTHOR = "ralphgen"  # of commits without an identity
SUBJECT = "Update rows"
SHA1 = "0" * 40  # as long as a name in that algorithm
BLOB = "100644"
FILE = re.compile(r"[A-Za-z0-9_.%~-]+\.jsonl")
KINDS = {
    "040000": "a directory",
    "100755": "an executable file",
    "120000": "a symbolic link",
    "160000": "a submodule",
}
WORK = ("refs/ralph/kept/", "refs/ralph/base/", "refs/ralph/work/")
BRANCHES = ("refs/heads/ralph/task-", "refs/ralph/began/ralph/task-")


WAITING_MERGES = """
SELECT task_id FROM ralphgen_merges WHERE state = 'waiting' AND task_id IS NOT NULL
"""


TAKEN = (
    "task {0} is in work, and another clone has pushed another task {0}: "
    "both wait, with what refers to them, until its session has ended and its work is merged"
)
GONE = "task {} is in work, and another clone has removed it: it stays until its session has ended"


class _DryRunError(Exception):
    """All was tried, and nothing is to stay."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync: the changes of our rows, and rows whose number changed before.

    `moved` has each of these rows with its former number, as sentences. `waiting` and `conflicts`
    are sentences on rows that were skipped: until a session ends, and until the user decides.
    `is_pushed` is whether the remote has all other rows; it is false without a remote.
    """

    changes: tuple[RowEdit, ...] = ()
    moved: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    is_pushed: bool = False


def sync(
    root: Path, say: Say, *, ask: Ask, prefer: Side | None = None, dry_run: bool = False
) -> Synced:
    """Fetch the rows of other clones, merge them by column, and push ours.

    New rows whose number is taken there get another one, with all their references. Both sides
    keep their version of a row in which both have changed a value, unless a side is preferred, and
    of a task with a taken number that is claimed. Without a remote the rows are only committed.
    `ask` is for settings of the remote that are not trusted. Raises `ProjectError` if the remote
    cannot be used, and if the merged rows cannot be stored; our rows are unchanged then.
    """
    if read_state(root).version is None:
        raise no_ledger()
    branch = _branch_of(root)
    if branch is None:
        raise ProjectError(f"no branch for rows in {CONFIG}", 'set rows = "ralphgen/rows" in [git]')
    if branch.has_remote:
        require_trust(root, git_items(root, remote=True), ask)
    done = Synced()
    branch.refuse_checked_out()
    with branch.locked():
        for attempt in range(PUSHES):
            theirs, own = branch.fetched() if branch.has_remote else None, None
            if theirs is not None:
                more, own = _merge_commit(branch, theirs, say, prefer=prefer, dry_run=dry_run)
                changes, moved = (*done.changes, *more.changes), (*done.moved, *more.moved)
                done = replace(more, changes=changes, moved=moved)
            if dry_run:
                break
            commit = branch.write(theirs, own)
            if not branch.has_remote:
                break
            if commit == theirs or branch.pushed(commit):
                return replace(done, is_pushed=True)
            time.sleep(secrets.randbelow(100 * (attempt + 1)) / 1000)  # not in step with others
        else:
            text = f'"{branch.remote}" received {PUSHES} pushes of rows meanwhile'
            raise ProjectError(text, 'run "ralphgen sync" again')
    return done


def keep_rows(root: Path, say: Say, *, syncs: bool = False) -> None:
    """Commit changed rows to their branch, if the settings name one; with `syncs`, sync them.

    A failure is a warning: nothing is lost, and the next commit or sync has the same rows.
    """
    try:
        branch = _branch_of(root)
        if branch is None or not _has_rows(root):  # such as of a worker
            return
        if syncs and branch.has_remote:
            found = sync(root, say, ask=lambda _shown: False)
            for line in found.moved:
                say(f"sync: {line}")
            for line in (*found.waiting, *found.conflicts):
                say(f"warning: sync: {line}")
            return
        with branch.locked():
            branch.write(None)
    except RalphgenError as error:
        say(f"warning: the rows were not {'synced' if syncs else 'committed'}: {error.problems[0]}")


def adoptable_rows(root: Path) -> str:
    """Return the branch with the rows for a clone's new database, empty if the clone has none."""
    branch = _branch_of(root, must=False)
    refs = () if branch is None else (branch.tracking, branch.ref)
    return next((ref.split("/", 2)[2] for ref in refs if branch and branch.commit(ref)), "")


def adopt_rows(root: Path, say: Say) -> None:
    """Take the rows of a clone's branch into its new database, which has no tasks.

    The rows of the branch replace those that `init` has made. Raises `ProjectError` for a branch
    that does not hold rows.
    """
    branch = _branch_of(root)
    if branch is None or not _has_rows(root) or read_state(root).version is None:
        return
    commit = branch.commit(branch.tracking) or branch.commit(branch.ref)
    own = read_own(root)
    if commit is None or any(branch.marks()) or any(key[0] == "tasks" for key in own.rows):
        return
    with branch.locked():
        found, written = _merge_commit(branch, commit, say, is_new=True)
        branch.write(commit, written)
    tasks = sum(edit.key[0] == "tasks" for edit in found.changes)
    say(f'read {tasks:,} tasks from the branch "{branch.name}"')


def rows_behind(root: Path) -> tuple[str, ...] | None:
    """Return the rows that the local branch does not have as the database has them.

    None without a branch in the settings, and without a database or repository, as in CI.
    """
    branch = _branch_of(root, must=False)
    if branch is None or not _has_rows(root):
        return None
    own = read_own(root)
    branch.written = _Written(own)
    files, found = branch.written.files, branch.files(branch.ref, must=False)
    differing = {
        name: blob
        for name, blob in found.items()
        if name not in files or object_of(files[name], blob) != blob
    }
    rows = own.ordered(branch.rows(differing, own.tables, {}, is_own=True))
    kept = {name for name in files if name in found and name not in differing}
    return tuple(
        key_label(key)
        for key in sorted({*own.rows, *rows}, key=lambda one: (table_order(one[0]), _order(one)))
        if not (key in own.rows and _file_of(key, own) in kept)
        and not _equal(own.rows.get(key), rows.get(key))
    )


def object_of(text: str, like: str) -> str:
    """Return the name of a text as a blob, in the algorithm of another name."""
    return object_name(text.encode(), HASHES[len(like) > len(SHA1)]).decode()


def _has_rows(root: Path) -> bool:
    """Return whether the database is there, or named in the environment; a worker has none."""
    if is_detached():
        return False
    place = database_place(root)
    return has_database(root) if place is None else place.dsn_env in os.environ


class _Branch:
    """The branch of a project's rows: its commits, written by plumbing, and its remote."""

    def __init__(self, root: Path, name: str, remote: str) -> None:
        found = repository_of(str(root))
        if found is None:
            raise ProjectError(f'"{root}" is not in a git repository', 'run "git init"')
        self.root = root
        self.name = name
        self.remote = remote
        self.ref = f"refs/heads/{name}"
        self.tracking = f"refs/remotes/{remote}/{name}"
        self.has_remote = any(key.startswith(f"remote.{remote}.") for key, _ in settings_of(root))
        self._repository = found
        self.written: _Written | None = None  # the rows when they were last read
        self._settings: list[tuple[str, str]] | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process of this clone write the branch."""
        with FileLock(Path(self._repository.common, "ralphgen-rows.lock")):
            yield

    def commit(self, name: str) -> str | None:
        """Return the commit that a name refers to, or None."""
        found = ask_git(self.root, ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"])
        return found.decode().strip() if found else None

    def marks(self) -> tuple[str | None, str | None, str | None]:
        """Return the commits that the database was last merged with, and last written to.

        The third one is the text of `_Skipped`, if rows were skipped in that merge.
        """
        with opened_database(self.root) as database:
            sql = f"SELECT rows_imported, rows_exported, rows_skipped FROM {MARKER}"
            found = database.reading(lambda: database.row(sql))
        return found if found is not None else (None, None, None)

    def common(self, theirs: str) -> str | None:
        """Return the last commit of theirs whose rows the database has, or None.

        A merge is marked in its own transaction, and each commit before the branch moves, so a
        kill at any moment leaves this right. Raises `ProjectError` for an unrelated history.
        """
        imported, exported, _ = self.marks()
        known = [one for one in (imported, exported) if one and self.commit(one)]
        if exported and exported not in known and (tip := self.commit(self.ref)):
            known.append(tip)
        found = ask_git(self.root, ["merge-base", theirs, *known]) if known else None
        if found is None and imported is not None:
            text = f'"{self.remote}/{self.name}" lacks the commit {imported[:12]} of these rows'
            hint = 'undo the forced push there, or run "git fetch --unshallow" in a shallow clone'
            raise ProjectError(text, hint)
        return found.decode().strip() if found else None

    def files(self, commit: str, *, must: bool = True) -> dict[str, str]:
        """Return the blobs of a commit by file name; empty for a missing one, unless it `must` be.

        Raises `ProjectError` for other entries than files of rows, and for too many bytes.
        """
        listed = ask_git(self.root, ["ls-tree", "-z", "-l", f"{commit}^{{tree}}"])
        if listed is None and must:
            raise ProjectError(f'git cannot read the branch "{self.name}"', "git fsck")
        found: dict[str, str] = {}
        problems: list[Problem] = []
        size = 0
        for entry in (listed or b"").split(b"\0")[:-1]:
            facts, _, path = entry.partition(b"\t")
            mode, _, blob, length = facts.decode().split()
            name = os.fsdecode(path)
            if mode != BLOB or not FILE.fullmatch(name) or name in found:
                kind = KINDS.get(mode, "a file that has no rows")
                problems.append(Problem(f'the branch "{self.name}" has {kind}: "{name}"', MENDED))
            else:
                found[name] = blob
                size += int(length)
        if size > LARGEST:
            text = f'the branch "{self.name}" is larger than {LARGEST:,} bytes'
            problems.append(Problem(text, MENDED))
        if problems:
            raise ProjectError.of(problems[:NAMED_ROWS])
        return found

    def rows(
        self,
        files: Mapping[str, str],
        tables: Mapping[str, MovedTable],
        known: dict[str, Rows],
        *,
        is_own: bool = False,
    ) -> Rows:
        """Return the rows of files. `known` caches rows by blob and receives new ones.

        With `is_own`, rows that can no longer be moved are left out. Raises `ProjectError` for
        lines that are no rows.
        """
        wanted = [(name, blob) for name, blob in files.items() if blob not in known]
        texts = read_files_of_git(self.root, [blob.encode() for _, blob in wanted])
        for (name, blob), data in zip(wanted, texts or [None] * len(wanted), strict=True):
            if data is None:
                raise ProjectError(f'git cannot read "{name}" of "{self.name}"', "git fsck")
            place = f"{self.name}:{name}"
            read = self.written.by_line if self.written else {}
            text = decoded(data, place)
            known[blob] = lines_in(text, place, tables, is_own=is_own, known=read)
        rows: dict[Key, Row] = {}
        for name, blob in files.items():
            if twice := rows.keys() & known[blob].keys():
                again = key_label(min(twice, key=_order))
                raise ProjectError(f"{self.name}:{name}: {again} occurs twice", MENDED)
            rows.update(known[blob])
        return rows

    def fetched(self) -> str | None:
        """Return the remote's commit of the branch once it is here, None if the remote has none."""
        listed = self._branch_query("ls-remote", "--", self.remote, self.ref)
        if listed.code:
            text = f'cannot read the branches of the remote "{self.remote}"'
            raise ProjectError(text, "check the network, and your access to it", _tail(listed))
        lines = (line.split("\t") for line in os.fsdecode(listed.output).splitlines())
        found = [commit for commit, name in lines if name == self.ref]
        if not found:
            return None
        if self.commit(self.tracking) != found[0]:
            words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
            self._branch_message(*words, "--", self.remote, f"+{self.ref}:{self.tracking}")
        return self.commit(self.tracking)

    def pushed(self, commit: str) -> bool:
        """Push a commit; return False if the remote has other commits now.

        Raises `ProjectError` if the remote refuses it for another reason.
        """
        before = self.commit(self.tracking)
        ended = self._branch_query("push", "--quiet", "--", self.remote, f"{commit}:{self.ref}")
        if not ended.code:
            self._branch_message("update-ref", self.tracking, commit)
            return True
        if self.fetched() in (before, None):
            text = f'"{self.remote}" does not take the branch "{self.name}"'
            raise ProjectError(text, "check your access to it, and its rules", _tail(ended))
        return False

    def write(self, theirs: str | None, own: Own | None = None) -> str:
        """Commit the rows of the database if they differ from the branch; return its commit.

        The branch then contains `theirs`, whose rows the database has. `own` are the rows if they
        have just been written. Raises `ProjectError` for a
        branch that is checked out or holds something else, and without a ledger.
        """
        self.refuse_checked_out()
        if read_state(self.root).version is None:
            raise no_ledger()
        tip, own = self.commit(self.ref), own or read_own(self.root)
        parents = [one for one in (theirs, tip) if one is not None]
        if theirs and tip:
            parents = [tip] * self._contains(tip, theirs) or [theirs]
            parents += [tip] * (tip not in parents and not self._contains(theirs, tip))
        known = self.files(parents[0]) if parents else {}
        _, exported, skipped = self.marks()
        if skipped and known:
            rows = own.ordered(self.rows(known, own.tables, {}, is_own=True))
            own = replace(own, rows=_Skipped.of(skipped, own).merge_skipped(own, rows))
        self.written = _Written(own, self.written)
        tree = self._tree(self.written.files, known)
        commit = parents[0] if parents else ""
        if len(parents) != 1 or tree != self._branch_message("rev-parse", f"{commit}^{{tree}}"):
            commit = self._committed(tree, parents)
        if commit != exported:
            self.mark("rows_exported", commit)
        if commit != tip:
            self._branch_message("update-ref", self.ref, commit, tip or "")
        return commit

    def mark(self, column: str, commit: str) -> None:
        """Keep in the database which commit was last written."""
        with opened_database(self.root) as database:
            sql = f"UPDATE {MARKER} SET {column} = ?"
            database.writing(lambda: database.change(sql, [commit]))

    def rename_work(self, numbers: Mapping[int, int]) -> None:
        """Give the refs of kept work the new numbers of its tasks; a repetition does nothing."""
        starts = "|".join(map(re.escape, (*WORK, *BRANCHES)))
        of_task = re.compile(rf"({starts})([0-9]+)(-[0-9]+)?")
        listed = ask_git(self.root, ["for-each-ref", "--format=%(refname) %(objectname)"]) or b""
        lines = []
        for ref, commit in (line.split() for line in os.fsdecode(listed).splitlines()):
            found = of_task.fullmatch(ref)
            if found and (number := numbers.get(int(found[2]))):
                lines += [f"create {found[1]}{number}{found[3] or ''} {commit}"]
                lines += [f"delete {ref} {commit}"]
        if lines:
            self._branch_message("update-ref", "--stdin", given="\n".join([*lines, ""]).encode())

    def worked_on(self) -> set[int]:
        """Return the tasks with a branch that is checked out in an agent's work tree."""
        wanted = ["for-each-ref", "--format=%(refname) %(worktreepath)", BRANCHES[0] + "*"]
        lines = os.fsdecode(ask_git(self.root, wanted) or b"").splitlines()
        out = [line.partition(" ")[0] for line in lines if line.partition(" ")[2]]
        return {int(one[1]) for ref in out if (one := re.match(rf"{BRANCHES[0]}(\d+)", ref))}

    def refuse_checked_out(self) -> None:
        """Raise `ProjectError` if a work tree has the branch checked out."""
        listed = ask_git(self.root, ["for-each-ref", "--format=%(worktreepath)", self.ref]) or b""
        head = ask_git(self.root, ["symbolic-ref", "--quiet", "HEAD"]) or b""
        if listed.strip() or os.fsdecode(head).strip() == self.ref:
            text = f'"{self.name}" is checked out, and the branch of the rows never is'
            raise ProjectError(text, f"check out another branch, or set another rows in {CONFIG}")

    def _contains(self, later: str, earlier: str) -> bool:
        return ask_git(self.root, ["merge-base", "--is-ancestor", earlier, later]) is not None

    def _tree(self, files: Mapping[str, str], known: Mapping[str, str]) -> str:
        """Return a tree of files; blobs that the branch has already are not written again."""
        like = next(iter(known.values()), "")
        blobs = {name: object_of(text, like) for name, text in files.items() if like}
        new = [name for name in files if not like or known.get(name) != blobs[name]]
        with tempfile.TemporaryDirectory(prefix="ralphgen-rows-") as folder:
            for at, name in enumerate(new):
                Path(folder, str(at)).write_text(files[name], encoding="utf-8", newline="")
            paths = "".join(f"{folder}/{at}\n" for at in range(len(new)))
            words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            if new:
                written = self._branch_message(*words, given=os.fsencode(paths)).splitlines()
                blobs.update(zip(new, written, strict=True))
        lines = (f"{BLOB} blob {blobs[name]}\t{name}\n" for name in sorted(files))
        return self._branch_message("mktree", given="".join(lines).encode())

    def _committed(self, tree: str, parents: Sequence[str]) -> str:
        words = ["commit-tree", "-m", SUBJECT, tree]
        words += [word for parent in parents for word in ("-p", parent)]
        made = self._branch_query(*words)
        if made.code:  # the user has set no identity
            own = ("-c", f"user.name={AUTHOR}", "-c", f"user.email={AUTHOR}@localhost")
            return self._branch_message(*own, *words)
        return os.fsdecode(made.output).strip()

    def _branch_query(self, *words: str, given: bytes = b"") -> GitResult:
        if self._settings is None:
            self._settings = trusted_settings(self.root)
        variables = passed_on(str(self.root / FOLDER), also=("*",))  # such as SSH_AUTH_SOCK
        try:
            done = run_git(
                self._repository,
                words,
                settings=self._settings,
                given=given,
                seconds=SECONDS,
                variables=variables,
            )
        except OSError as error:
            raise ProgramError("git is not installed", "install git") from error
        if done.code is None:
            raise ProgramError(f"git took longer than {SECONDS} seconds", "check the network")
        return done

    def _branch_message(self, *words: str, given: bytes = b"") -> str:
        ended = self._branch_query(*words, given=given)
        if ended.code:
            raise ProgramError(f"git {words[0]} failed", output=_tail(ended))
        return os.fsdecode(ended.output).strip()


MENDED = "remove it from the branch, or set another rows in [git]"


def _tail(ended: GitResult) -> str:
    return masked(os.fsdecode(ended.errors or ended.output).strip())[-TAIL:]


def _branch_of(root: Path, *, must: bool = True) -> _Branch | None:
    """Return the branch of a project's settings, None without one.

    Raises `ProjectError` outside of a repository, or returns None unless it `must` be in one.
    """
    settings = read_settings(root)
    if settings.git.rows is None or not (must or repository_of(str(root))):
        return None
    return _Branch(root, settings.git.rows, settings.loop.remote or "origin")


class _Written:
    """The rows of a database as files of lines, for the branch.

    A table of the project has a file even without rows: so it differs from a table that another
    clone does not have. `by_line` has the rows of the lines, `lines` each row with its line.
    """

    def __init__(self, own: Own, before: "_Written | None" = None) -> None:
        """Take the lines of unchanged rows from those `before`."""
        self.by_line: dict[str, tuple[Key, Row]] = {}
        self.lines: dict[Key, tuple[Row, str]] = {}
        found: dict[str, list[str]] = {
            _name(table.name): [] for table in own.tables.values() if not table.is_ralphs
        }
        known = before.lines if before else {}
        for key in sorted(own.rows, key=_order):
            row = own.rows[key]
            old, line = known.get(key, ({}, ""))
            if old is not row and not _identical(old, row):
                line = encode_row(key[0], row)
            self.lines[key] = row, line
            self.by_line[line] = key, row
            found.setdefault(_file_of(key, own), []).append(line)
        self.files = {name: "".join(f"{line}\n" for line in lines) for name, lines in found.items()}


def _identical(one: Row, other: Row) -> bool:
    """Return whether two rows are written as the same line: 1 is not 1.0."""
    return one == other and [*map(type, one.values())] == [*map(type, other.values())]


def _file_of(key: Key, own: Own) -> str:
    """Return the name of a row's file."""
    if not own.tables[key[0]].is_ralphs or key[0] not in ("tasks", COMMENTS):
        return _name(key[0])
    number = key[1] if key[0] == "tasks" else own.rows[key].get("task_id")
    at = (max(number, 0) + HUNDRED - 1) // HUNDRED if isinstance(number, int) else 0
    return _name(f"{key[0]}-{at:04}")


@cache
def _name(text: str) -> str:
    return f"{quote(text, safe='', errors='replace')}.jsonl"


def _order(key: Key) -> tuple[str, list[tuple[int, object]]]:
    return key[0], [*key_order(key[1])]


def _equal(one: Row | None, other: Row | None) -> bool:
    """Return whether two rows are the same; a column that one of them lacks is null there."""
    if one is None or other is None:
        return one is other
    return all(same(one.get(name), other.get(name)) for name in {*one, *other})


def _merge_commit(
    branch: _Branch,
    theirs: str,
    say: Say,
    *,
    prefer: Side | None = None,
    dry_run: bool = False,
    is_new: bool = False,
) -> tuple[Synced, Own | None]:
    """Merge the rows of a commit into the database; return the changes, and the rows afterwards.

    These are None if they were not read again.

    With `is_new` the database is one that `init` has just made, and takes all of theirs.
    """
    base = None if is_new else branch.common(theirs)
    if base == theirs and not branch.marks()[2]:
        return Synced(), None
    work = _Merge(branch, theirs, base, prefer=prefer, dry_run=dry_run, is_new=is_new)
    return work.merged(say), work.own


@dataclass(frozen=True, slots=True)
class _Skipped:
    """Rows that a merge has skipped: the database has ours, the branch has theirs.

    The base of the next merge has these rows as `base` has them, None for rows that it lacks.
    """

    base: Mapping[Key, Row | None]

    @classmethod
    def of(cls, text: str, own: Own) -> "_Skipped":
        """Return the rows in a text that `text` has made."""
        rows, missing = (
            lines_in(part, "rows_skipped", own.tables, is_own=True) for part in read_json(text)
        )
        return cls({**own.ordered(rows), **dict.fromkeys(missing)})

    def text(self, own: Own) -> str | None:
        """Return the lines of rows in the base and of keys that it lacks, None without any."""
        rows = {key: row for key, row in self.base.items() if row is not None}
        missing = {
            key: dict(zip(own.tables[key[0]].key, key_values(key[1]), strict=True))
            for key, row in self.base.items()
            if row is None
        }
        parts = ["".join(encode_rows(part)) for part in (rows, missing)]
        return encode(parts) if self.base else None

    def merge_skipped(self, own: Own, theirs: Rows) -> Rows:
        """Return our rows, with theirs instead of those skipped and of references to these."""
        keys = _with_references({*self.base}, own, theirs, self.base)
        return {
            **{key: row for key, row in own.rows.items() if key not in keys},
            **{key: theirs[key] for key in keys if key in theirs},
        }


def _with_references(
    keys: set[Key], own: Own, theirs: Rows, base: Mapping[Key, Row | None]
) -> set[Key]:
    """Return rows with those that refer to them, for each that is not the same row on both sides.

    What refers to a row that only one side has, or that each has made, is skipped with it.
    """
    if not keys:
        return set()
    users: dict[Key, set[Key]] = {}
    for side in (own.rows, theirs):
        for key, row in side.items():
            for _, parent in references(own, key, row):
                users.setdefault(parent, set()).add(key)
    found, pending = set(keys), list(keys)
    while pending:
        key = pending.pop()
        if not (key in own.rows and key in theirs and base.get(key)):
            more = users.get(key, set()) - found
            found |= more
            pending += more
    return found


class _Merge:
    """The merge of a commit's rows into the database; `moved` are the rows with new numbers."""

    def __init__(
        self,
        branch: _Branch,
        theirs: str,
        base: str | None,
        *,
        prefer: Side | None,
        dry_run: bool,
        is_new: bool,
    ) -> None:
        self.own: Own | None = None
        self._moved: list[str] = []
        self._waiting: list[str] = []
        self._branch = branch
        self._commit = theirs
        self._prefer = prefer
        self._dry_run = dry_run
        self._is_new = is_new
        self._files = branch.files(theirs)
        self._base_files = branch.files(base) if base else {}
        self._skipped = branch.marks()[2]
        self._read: tuple[Rows, Rows] | None = None

    def merged(self, say: Say) -> Synced:
        """Write the changes in one transaction; a dry run ends without.

        New numbers come first: the journal does not have these, since it has the new numbers then.
        """
        root, masks = self._branch.root, dict[str, None]()
        done = Synced()

        def work() -> None:
            nonlocal done
            take_time(database)
            own = own_of(database, root)
            theirs, base = self._rows(own)
            moved, skipped = self._clashes(own), set[Key]()
            in_work = self._in_work(database) if self._may_wait(own, moved) else set[Key]()
            if waiting := in_work & {*moved}:
                self._waiting += [TAKEN.format(key[1]) for key in sorted(waiting, key=_order)]
                skipped = _with_references(waiting, own, theirs, base)
                moved = {key: number for key, number in moved.items() if key not in skipped}
            if moved:
                own = database.closing(lambda _: True, lambda: self._renumber(database, own, moved))
            if not self._is_new:
                journal.begin()
            found, conflicts = self._plan(own, skipped, in_work)
            checked(lambda _own: found, own, theirs)
            writer = EditWriter(database, own)
            if found.changes:
                database.closing(lambda _: True, lambda: writer.write(found.changes))
                record_reason(database, session, IMPORTED, database.closed_tasks(), TOOL)
                self.own = replace(own, rows=writer.rows)
            kept = _Skipped({key: base.get(key) for key in skipped})
            sql = f"UPDATE {MARKER} SET rows_imported = ?, rows_skipped = ?"
            database.change(sql, [self._commit, kept.text(own)])
            masks.update(writer.masked)
            done = Synced(found.changes, tuple(self._moved), tuple(self._waiting), tuple(conflicts))
            if self._dry_run:
                raise _DryRunError

        session = f"{TOOL}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
        with opened_database(root) as database, suppress(_DryRunError):
            journal = database.journal(
                session, {"recipe": RECIPE}, lambda: TOOL, ends_with_writes=True
            )
            database.has_tasks = bool(ralphs_tables(root))
            database.writing(work)
            if done.changes and not self._is_new:
                say(f"undo: ralphgen undo {session}")
        for name in masks:
            say(f'warning: set the secrets of the MCP servers of "{plain(name)}": they are "***"')
        return done

    def _in_work(self, database: "Database") -> set[Key]:
        """Return the tasks of live sessions, of their work trees and of the merge queue."""
        held = {*live_claims(database)} | self._branch.worked_on()
        held |= {task for (task,) in database.rows(WAITING_MERGES)}
        return {("tasks", task) for task in held}

    def _may_wait(self, own: Own, moved: Mapping[Key, int]) -> bool:
        """Return whether a task gets another number, or is gone on the other side."""
        theirs, base = self._rows(own)
        return own.has_tasks and any(
            key[0] == "tasks" and (key in moved or (key in base and key not in theirs))
            for key in own.rows
        )

    def _plan(self, own: Own, skipped: set[Key], in_work: set[Key]) -> tuple[MergedRows, list[str]]:
        """Return the edits of all rows except the skipped ones, and the conflicts.

        Adds the rows of conflicts to `skipped`, and what refers to them.
        """
        theirs, base = self._rows(own)
        found = merge(
            _with_ours(base, own, skipped),
            own.rows,
            _with_ours(theirs, own, skipped),
            (),
            own.ralphs,
            self._prefer,
        )
        conflicts, changes = [*found.conflicts.values()], found.changes
        gone = {edit.key for edit in changes if edit.kind == "remove"} & in_work
        self._waiting += [GONE.format(key[1]) for key in sorted(gone, key=_order)]
        skipping = {*found.conflicts} | gone
        while True:
            skipped |= _with_references(skipping, own, theirs, base)
            changes = tuple(edit for edit in changes if edit.key not in skipped)
            broken = self._broken(own, changes, theirs)
            if not broken:
                return replace(found, changes=changes, conflicts={}), conflicts
            if self._prefer is None:
                conflicts += [text for _, text in broken.values()]
                skipping = {*broken, *(parent for parent, _ in broken.values())}
            else:  # a row that one side needs is kept or restored
                needed = {parent for parent, _ in broken.values()}
                back = [RowEdit("add", key, theirs[key]) for key in needed if key not in own.rows]
                changes = (*(edit for edit in changes if edit.key not in needed), *back)
                skipping = set()

    def _broken(
        self, own: Own, changes: tuple[RowEdit, ...], theirs: Rows
    ) -> dict[Key, tuple[Key, str]]:
        """Return the edits that leave a row without another one, with that row and a sentence."""
        rows, edits = after(own.rows, changes), {edit.key: edit for edit in changes}
        gone = {key for key in edits if key not in rows}
        found: dict[Key, tuple[Key, str]] = {}
        for key in rows if gone else edits:
            for _, parent in references(own, key, rows[key]):
                if parent in rows:
                    continue
                there = {at for _, at in references(own, key, theirs.get(key, {}))}
                if parent in gone and parent not in there:
                    text = f"{key_label(parent)} was deleted there, but {key_label(key)} needs it"
                    found[parent] = parent, text
                elif key in edits and parent in theirs:
                    text = f"{key_label(key)} needs {key_label(parent)}, which was deleted here"
                    found[key] = parent, text
        return found

    def _rows(self, own: Own) -> tuple[Rows, Rows]:
        """Return their rows and those of the base, as our database would have them."""
        if self._read is None:
            known = self._unchanged_rows(own)
            theirs = self._branch.rows(self._files, own.tables, known)
            columns = {name: table.columns for name, table in own.tables.items()}
            refuse_unknown_columns(theirs, columns, self._branch.name)
            base = self._branch.rows(self._base_files, own.tables, known, is_own=True)
            base = own.rows if self._is_new else base
            unsaid = {
                table.name
                for table in own.tables.values()
                if not table.is_ralphs and _name(table.name) not in self._files
            }
            kept = {key: row for key, row in own.rows.items() if key[0] in unsaid}
            theirs, base = own.ordered(theirs), own.ordered(base)
            if self._skipped:
                before = _Skipped.of(self._skipped, own).base
                rows = {key: row for key, row in before.items() if row is not None}
                base = {key: row for key, row in base.items() if key not in before} | rows
            self._read = {**theirs, **kept}, {**base, **kept}
        return self._read

    def _unchanged_rows(self, own: Own) -> dict[str, Rows]:
        """Return our own rows by the blobs of files that are the same there: no need to read."""
        by_file: dict[str, dict[Key, Row]] = {}
        for key, row in own.rows.items():
            by_file.setdefault(_file_of(key, own), {})[key] = row
        written = self._branch.written = _Written(own, self._branch.written)
        return {
            blob: by_file.get(name, {})
            for name, text in written.files.items()
            if (blob := self._files.get(name)) and object_of(text, blob) == blob
        }

    def _clashes(self, own: Own) -> dict[Key, int]:
        """Return new numbers for our new rows whose number another new row has there."""
        theirs, base = self._rows(own)
        numbered = {
            name
            for name, table in own.tables.items()
            if [table.kinds[column] for column in table.key] == ["INTEGER"]
            and not (table.is_ralphs and name == "metadata")
            and table.key[0] not in table.references  # it has the number of its parent
        }
        ours = {key for key in own.rows if key[0] in numbered and key not in base and key in theirs}
        clashing = {
            key for key in ours if not _equal(own.rows[key], {**own.rows[key], **theirs[key]})
        }
        # An equal row is another one if it refers to a row that gets another number.
        while more := {
            key
            for key in ours - clashing
            if _moved_references(own, key, base.get(key), dict.fromkeys(clashing, 0))
        }:
            clashing |= more
        highest = {name: 0 for name, _ in clashing}
        for name, number in (*own.rows, *theirs) if clashing else ():
            if name in highest and isinstance(number, int):
                highest[name] = max(highest[name], number)
        found: dict[Key, int] = {}
        for key in sorted(clashing, key=_order):
            highest[key[0]] += 1
            found[key] = highest[key[0]]
        for name, last in highest.items():
            if last > LARGEST_NUMBER:
                text = f'new rows of "{name}" would have numbers above {LARGEST_NUMBER}'
                raise ProjectError(text, "give the row with that number a smaller one there")
        return found

    def _renumber(self, database: "Database", own: Own, moved: Mapping[Key, int]) -> Own:
        """Give rows other numbers, here and in all that refers to them; return our rows then."""
        tasks = {
            key[1]: number
            for key, number in moved.items()
            if key[0] == "tasks" and isinstance(key[1], int)
        }
        self._moved[:] = [f"{key_label(key)} is now {number}" for key, number in moved.items()]
        rows = _Numbers(database, own, *self._rows(own), moved).write()
        if not self._dry_run:
            self._branch.rename_work(tasks)
        return replace(own, rows=rows)


def _with_ours(rows: Rows, own: Own, keys: set[Key]) -> Rows:
    """Return rows from elsewhere, with some of them as ours."""
    if not keys:
        return rows
    ours = {key: own.rows[key] for key in keys if key in own.rows}
    return {key: row for key, row in rows.items() if key not in keys} | ours


def _is_new(before: Row | None, column: str, value: Value) -> bool:
    return before is None or not same(before.get(column), value)


def _moved_references(
    own: Own, key: Key, before: Row | None, numbers: Mapping[Key, int]
) -> dict[str, Value]:
    """Return the new values of a row's references to rows that get other numbers.

    A reference that is as it was `before`, in the base, means a row of the base.
    """
    row = own.rows[key]
    found: dict[str, Value] = {}
    for column, parent in references(own, key, row):
        if parent in numbers and _is_new(before, column, row[column]):
            found[column] = numbers[parent]
            if key[0] == "tasks" and column == DEPENDENCIES:
                needed = prerequisite_lists([row[column]])[0] or []
                found[column] = encode([numbers.get(("tasks", one), one) for one in needed])
    return found


class _Numbers:
    """New numbers of rows, within a transaction that writes."""

    def __init__(
        self, database: "Database", own: Own, theirs: Rows, base: Rows, moved: Mapping[Key, int]
    ) -> None:
        self._database = database
        self._own = own
        self._theirs = theirs
        self._base = base
        self._moved = moved

    def write(self) -> Rows:
        """Write the rows, the references to them, the ledger, and a comment on each task.

        Return all rows with the new numbers.
        """
        database, own = self._database, self._own
        database.change(database.sql.DEFER_KEYS)
        copied = [key for key in self._moved if not self._is_moved(key)]
        rows: dict[Key, Row] = {}
        for key, row in own.rows.items():
            changed = _moved_references(own, key, self._base.get(key), self._moved)
            if changed:
                self._change(key, changed)
                self._write_journal(key, changed)
            if key in self._moved:
                changed[own.tables[key[0]].key[0]] = self._moved[key]
            new = {**row, **changed} if changed else row
            number = own.tables[key[0]].key_of(new) if changed else key[1]
            rows[key[0], key[1] if number is None else number] = new
        for key in copied:
            table = own.tables[key[0]]
            database.change(
                f"DELETE FROM {quoted(key[0])} WHERE {quoted(table.key[0])} = ?", [key[1]]
            )
        for name in {key[0] for key in self._moved}:
            database.continue_numbers(name, own.tables[name].key[0])
        self._write_ledger()
        return {**rows, **self._comments()}

    def _is_moved(self, key: Key) -> bool:
        """Give a row its number; return False if it was copied, as the references forbid a move."""
        database, table = self._database, self._own.tables[key[0]]
        name, column, number = quoted(key[0]), table.key[0], self._moved[key]
        if database.sql.TYPED:
            database.change("SAVEPOINT ralphgen_number")
        try:
            sql = f"UPDATE {name} SET {quoted(column)} = ? WHERE {quoted(column)} = ?"
            database.change(sql, [number, key[1]])
        except database.refusals:
            if database.sql.TYPED:
                database.change("ROLLBACK TO SAVEPOINT ralphgen_number")
        else:
            return True
        schema = self._own.schema.table(key[0])
        stored = [one.name for one in schema.columns if not one.generated] if schema else []
        names = ", ".join(quoted(one) for one in stored if one != column)
        database.change(
            f"INSERT INTO {name} ({quoted(column)}, {names}){database.sql.GIVEN_NUMBER} "
            f"SELECT CAST(? AS bigint), {names} FROM {name} WHERE {quoted(column)} = ?",
            [number, key[1]],
        )
        return False

    def _change(self, key: Key, values: Mapping[str, Value]) -> None:
        table = self._own.tables[key[0]]
        known: dict[str, Value] = dict(zip(table.key, key_values(key[1]), strict=True))
        if key in self._moved:
            known = {table.key[0]: self._moved[key]}
        where = " AND ".join(f"{quoted(one)} = ?" for one in known)
        marks = ", ".join(f"{quoted(one)} = ?" for one in values)
        self._database.change(
            f"UPDATE {quoted(key[0])} SET {marks} WHERE {where}",
            [*self._encode_values(table, values), *self._encode_values(table, known)],
        )

    def _encode_values(self, table: MovedTable, values: Mapping[str, Value]) -> list[object]:
        if not self._own.is_typed:
            return [*values.values()]
        return [encode_value(table.kinds[one], one, value) for one, value in values.items()]

    def _write_ledger(self) -> None:
        """Change the numbers in the ledger: its own columns, and the entries of the journal."""
        database = self._database
        columns = [
            (table, column)
            for table, column in database.rows(database.catalog.LEDGER_COLUMNS)
            if table.startswith(PREFIX) and column in ("task_id", "task")
        ]
        for (name, old), new in self._moved.items():
            if name == "tasks" and self._own.has_tasks:
                for table, column in columns:
                    its = quoted(column)
                    sql = f"UPDATE {quoted(table)} SET {its} = ? WHERE {its} = ?"
                    database.change(sql, [new, old])
            self._write_journal((name, old), {self._own.tables[name].key[0]: new})
            database.change(
                f"UPDATE {PREFIX}journal SET row_key = ? WHERE table_name = ? AND row_key = ?",
                [str(new), name, str(old)],
            )

    def _write_journal(self, key: Key, values: Mapping[str, Value]) -> None:
        """Change numbers in the journal's entries of a row; quotes within a text are escaped."""
        for column, new in values.items():
            old = self._own.rows[key].get(column)
            for end in ",}":
                pair = f'"{column}":{old!r}{end}', f'"{column}":{new!r}{end}'
                self._database.change(
                    f"UPDATE {PREFIX}journal SET before = replace(before, ?, ?), "
                    "after = replace(after, ?, ?) WHERE table_name = ? AND row_key = ?",
                    [*pair, *pair, key[0], str(key[1])],
                )

    def _comments(self) -> Rows:
        """Add a comment to each moved task, which names its former number; return them."""
        table = self._own.tables.get(COMMENTS)
        if table is None or not table.is_ralphs:
            return {}
        rows: dict[Key, Row] = {}
        taken = [key[1] for key in (*self._own.rows, *self._theirs) if key[0] == COMMENTS]
        taken += [number for key, number in self._moved.items() if key[0] == COMMENTS]
        number = max((one for one in taken if isinstance(one, int)), default=0)
        for key, task in self._moved.items():
            if key[0] != "tasks":
                continue
            number += 1
            row: dict[str, Value] = {
                "id": number,
                "task_id": task,
                "author": RENUMBERED_BY,
                "body": FORMERLY.format(key[1]),
                "created": now(),
            }
            row = {name: value for name, value in row.items() if name in table.columns}
            rows[COMMENTS, number] = {**dict.fromkeys(table.columns), **row}
            names, marks = ", ".join(map(quoted, row)), ", ".join("?" * len(row))
            self._database.change(
                f"INSERT INTO {quoted(COMMENTS)} ({names}){self._database.sql.GIVEN_NUMBER} "
                f"VALUES ({marks})",
                self._encode_values(table, row),
            )
        self._database.continue_numbers(COMMENTS, table.key[0])
        return rows
