"""The merge queue of a branch: merges everything that waits, and runs the checks once.

Work is merged in memory if possible, one merge commit after the other. The checks run on the last
one, and the branch moves to it if they pass. If they fail, a binary search finds the entry that
makes the difference. The rows of the queue are in the ledger; one process at a time runs it.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from filelock import FileLock, Timeout

from ralphgen.agents.sandbox import current_rules
from ralphgen.emit.trust import check_items, content_items, record_items, untrusted
from ralphgen.errors import ProgramError, ProjectError, RalphgenError, Say, plain
from ralphgen.exchange.branch import keep_rows
from ralphgen.files import FULL, WRITE_HINT, refuse_full_disk
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.gate import checked_files
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.tables import state_of
from ralphgen.loop.git import Git, top_of
from ralphgen.loop.kept import forget_merged
from ralphgen.loop.merge import (
    ALL,
    COMMIT,
    SETUP,
    CheckFailure,
    Conflict,
    Failed,
    Merged,
    RedCheck,
    Refused,
    Work,
    aside,
    failed_check,
    merge_message,
    record_failure,
    recorded_work,
    remaining_conflicts,
    unqueued_merges,
)
from ralphgen.loop.queued import Check, Checked, LedgerRows, QueueRows
from ralphgen.loop.run import PushRefusedError
from ralphgen.loop.trees import (
    BRANCH,
    LEFT,
    MERGE,
    RemoteError,
    Worktree,
    changed_in,
    checkout,
    create_branch,
    delete_refs,
    fetch_base,
    forget,
    landing,
    move_base,
    next_name,
    one_of_each,
    protection_problem,
    refused_files,
    unreachable,
    users_checkout,
)
from ralphgen.project.config import LoopConfig
from ralphgen.project.database import open_database, opened_database
from ralphgen.project.inspect import done_rules
from ralphgen.project.model import done_facts
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tasks import claims, merges
from ralphgen.runtime.tasks.merges import QueuedMerge
from ralphgen.runtime.tasks.status import checks_for, definition_of
from ralphgen.sessions.claims import release_claim
from ralphgen.sessions.model import TaskClaim

FIRST_WINDOW, LARGEST_WINDOW = 64, 256  # entries of one batch
PUSHES = 5  # times that a round starts again because of other pushes
RULES = ".gitattributes"
REF = "refs/ralphgen/merges/"  # by number: the commit of an entry
NOT_MERGED = "not merged"
SHORT = 12  # characters of a commit id, as git abbreviates it in large repositories
LISTED = 1_000  # entries and runs of a list
LONGEST = 1_500  # characters of a check's output in a comment
OTHER_RUNNER = "another process runs the queue"
ELSEWHERE = "its commit is not in this repository"
PUSH_HINT = 'change the rule there, then run "ralphgen loop --worktrees", which pushes first'
NO_WORD = re.compile(r"[\s=]+")  # in the name of a check, which a trailer has as a word
TRAILER = re.compile(r"[A-Za-z0-9-]+: ")


@dataclass(frozen=True, slots=True)
class Waits:
    """The entry waits on, for the user, for a remote, or for another machine."""

    reason: str


Ended = Merged | Failed
Outcome = Ended | Waits


class _BlockedError(Exception):
    """Nothing can be merged now; the text is the reason."""


class _BehindError(Exception):
    """The branch or its remote has other commits: the round has to start again."""


class _DroppedError(Exception):
    """An entry of the batch was dropped while the checks ran: the round has to start again."""


@dataclass(frozen=True, slots=True)
class Member:
    """An entry in a batch, and the head that its merge makes; `landing` is empty for none."""

    entry: QueuedMerge
    head: str
    landing: str


def enter_session(
    root: Path,
    tree: Worktree,
    claim: TaskClaim,
    title: str,
    config: LoopConfig,
    say: Say,
) -> int | Failed:
    """Enter the work of a session that is done; return the entry's number, or why it cannot merge.

    The entry takes the recorded tree. Other changes of the worktree are kept on another branch, and
    the worktree is free for the next task. In one transaction the entry is made and the claim is
    released; a repeated call returns the same number. Raises `ProgramError` if git fails.
    """
    git = Git(root)
    task, session = claim.task, claim.session_id
    work = recorded_work(git, tree, task, session, title, config, say)
    if not isinstance(work, Work):
        return record_failure(git, task, session, work)
    if marked := remaining_conflicts(git, task, work.commit):
        return record_failure(git, task, session, Conflict(marked, aside(git, work.branch, say)))
    with opened_database(root) as database:
        number = database.writing(
            lambda: merges.enter(
                database,
                work=work.commit,
                tree=git.say("rev-parse", f"{work.commit}^{{tree}}"),
                target=tree.base,
                task=task,
                session=session,
            )
        )
    git.say("update-ref", f"{REF}{number}", work.commit)
    forget(git, task)
    return number


def enter_commit(root: Path, commit: str, target: str, task: int | None, session: str) -> int:
    """Enter a proved commit of the user, or of the session that holds the task; return its number.

    Raises `ProjectError` if other work of the task waits already.
    """
    git = Git(root)
    with opened_database(root) as database:
        number = database.writing(
            lambda: merges.enter(
                database,
                work=commit,
                tree=git.say("rev-parse", f"{commit}^{{tree}}"),
                target=target,
                task=task,
                session=session or None,
            )
        )
    git.say("update-ref", f"{REF}{number}", commit)
    return number


def enter_unqueued_work(root: Path, config: LoopConfig, say: Say, onto: str = "") -> list[int]:
    """Enter the work of sessions that a kill has kept from entering; return the numbers.

    Work that cannot be merged is returned to its task. Tasks of running sessions are left out.
    """
    project = Project(root)
    with opened_database(root) as database:
        live = database.reading(lambda: claims.live_claims(database))
    numbers = []
    for tree, task, session in unqueued_merges(root, live, say, onto):
        claim = TaskClaim(project, session, task, 0)
        entered = enter_session(root, tree, claim, "", config, say)
        if isinstance(entered, int):
            numbers.append(entered)
        else:
            give_back(claim, entered)
            say(f"task {task}: {NOT_MERGED}: {words_of(entered)[0]}")
    return numbers


def give_back(claim: TaskClaim, outcome: Failed) -> str | None:
    """Release the task of work that cannot enter the queue; return the task's status."""
    project = claim.project
    text, comment = words_of(outcome)
    repeated = outcome.is_last and not isinstance(outcome, Refused)
    return release_claim(
        claim,
        NOT_MERGED,
        comment,
        reopens=True,
        # work that did not merge for the first time always has a next session
        attempts=1 if outcome.is_last else project.settings.loop.attempts + 1,
        reason=f"its work did not merge twice: {plain(text)}" if repeated else "",
    )


def words_of(outcome: Outcome) -> tuple[str, str]:
    """Return the result of a merge as a line for the user, and as a comment on the task."""
    match outcome:
        case Merged(commit=commit, recorded=recorded, is_checked=is_checked, flaky=flaky):
            more = "" if is_checked else " (no check)"
            more += f"; flaky: {flaky}" if flaky else ""
            more += f"; approved: {', '.join(recorded)}" if recorded else ""
            return f"as {commit[:SHORT]}{more}", ""
        case Refused(files=files, branch=branch):
            text = f"tasks must not change {', '.join(files)}; the work is kept on {branch}"
        case Conflict(files=files, branch=branch):
            text = (
                f"conflict with the base branch in {', '.join(files)}; the work is kept on {branch}"
            )
        case RedCheck(name=name, tail=tail, branch=branch):
            failed = f'"{name}" failed on the merged files'
            if name == COMMIT:
                last = tail.rpartition("\n")[2]
                failed = f"it could not be committed ({one_line(last)})"
            elif name == ALL:
                failed = "the checks give no proof on the merged files"
            text = f"{failed}; the work is kept on {branch}"
            return text, f"It was not merged: {plain(text)}.\n\n{tail[-LONGEST:]}"
        case Waits(reason=reason):
            return reason, ""
    return text, plain(f"It was not merged: {text}.")


class MergeQueue:
    """The queue of one branch in one project, as this process runs it.

    `rows` are those of the project's ledger, unless they are elsewhere. `ended` receives each entry
    that this process merges or returns, with its outcome. When `stop` is set, the setup of the
    checkout ends. With `allow_failing_base`, a failing branch stops nothing.
    """

    def __init__(
        self,
        root: Path,
        target: str,
        config: LoopConfig,
        say: Say,
        *,
        rows: QueueRows | None = None,
        ended: Callable[[QueuedMerge, Ended], None] = lambda _entry, _outcome: None,
        stop: threading.Event | None = None,
        allow_failing_base: bool = False,
        trust_edited: bool = False,
    ) -> None:
        self._root, self._target, self._config = root, target, config
        self._rows: QueueRows = rows or LedgerRows(root, target)
        self._say, self._ended, self._stop = say, ended, stop
        self._allow_failing_base = allow_failing_base
        self._trust_edited = trust_edited
        self.window = FIRST_WINDOW
        self._plain = ""  # a head of this round whose files and settings have no rules for merges
        self._tree = ("", "")  # a head and its tree
        self._skipped: dict[int, str] = {}  # why entries wait that only the user can continue
        self._batch = 0
        self._failure: CheckFailure | None = None  # of the last run that failed
        self._git = Git(root)
        self._left_reason = ""  # why the entries that this round skips wait
        self.obstacle = ""  # why the waiting entries wait, after a pass that could not merge them

    def waiting(self) -> list[QueuedMerge]:
        """Return the waiting entries, in order."""
        return self._rows.waiting()

    def has(self, entry: QueuedMerge) -> bool:
        """Return whether this repository has the work of an entry."""
        return self._git.commit(entry.work) is not None

    def empty(self) -> bool:
        """Merge what waits, until nothing is left or nothing can be merged now.

        `obstacle` then has the reason. Returns False if another process runs the queue. Raises
        `ProgramError` if the branch itself fails its checks, or no checks can prove anything, and
        `PushRefusedError` if the remote does not take the branch.
        """
        with self.alone() as is_alone:
            if not is_alone:
                self.obstacle = ""
                return False
            pushes = 0
            while True:
                try:
                    if not self._round():
                        self.obstacle = self._left_reason
                        return True
                    pushes, self.obstacle = 0, ""
                except _DroppedError:
                    self._say("an entry was dropped while the checks ran: merging again")
                except _BehindError:
                    pushes += 1
                    text = f'"{self._target}" received {pushes} pushes while the checks ran'
                    if pushes >= PUSHES:
                        return self._blocked(text)
                    self._say(f'"{self._target}" has new commits: merging again')
                except _BlockedError as error:
                    return self._blocked(str(error))
                except ProgramError:
                    raise
                except ProjectError as error:
                    return self._blocked(error.problems[0].text)

    def refuse_failing(self, tasks: Sequence[int], *, allow_failing: bool = False) -> None:
        """Raise `ProgramError` if a check of one of the tasks fails on the branch.

        `allow_failing` prepares the checkout without running the checks.
        """
        base = self._tip()
        with checkout(self._root, MERGE, self._config, self._say, self._stop) as place:
            place.set_to(base, base, base)
        if allow_failing:
            return
        self._batch = self._rows.next_batch()
        if not self._passes(base, base, [], tasks, fresh=True):
            raise self._base_error()

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the queue, if no other process does; yield whether this one holds it."""
        name = sha256(self._target.encode()).hexdigest()[:16]
        lock = FileLock(Path(self._git.repository.common, f"ralphgen-merges-{name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        over, leads = threading.Event(), False
        try:
            # Runners on other machines are beyond the lock.
            leads = self._rows.lead()
            if leads:
                threading.Thread(target=self._keep_lease, args=(over,), daemon=True).start()
            yield leads
        finally:
            over.set()
            if leads:
                with suppress(RalphgenError):  # it expires
                    self._rows.leave()
            lock.release()

    def _keep_lease(self, over: threading.Event) -> None:
        while not over.wait(merges.LEASE / 4):
            with suppress(RalphgenError):
                self._rows.keep()

    def _blocked(self, reason: str) -> bool:
        self.obstacle = reason
        if others := [one.number for one in self.waiting() if one.reason != reason]:
            self._rows.note(others, reason)
        return True

    def revert(
        self, commit: str, message: str, task: int | None, landed: Callable[[str], None]
    ) -> None:
        """Take the changes of a merge commit out of the branch by a new commit, as `alone` allows.

        It lands like a batch: only if the checks of the task pass on it. `landed` receives it, or
        an empty text if the branch lacks these changes already; until it returns, nothing else
        moves the branch. Raises `ProjectError` before the branch moves if that is impossible.
        """
        for _ in range(PUSHES):
            try:
                self._revert(commit, message, task, landed)
            except _BehindError:
                self._say(f'"{self._target}" has new commits: reverting again')
            except _BlockedError as error:
                raise ProjectError(str(error)) from error
            else:
                return
        raise ProjectError(f'"{self._target}" received {PUSHES} pushes while the checks ran')

    def _revert(
        self, commit: str, message: str, task: int | None, landed: Callable[[str], None]
    ) -> None:
        """Revert a merge on the present tip; raise `_BehindError` if the tip moved meanwhile."""
        git = self._git
        problem = fetch_base(git, self._target, self._config)
        if problem := problem or protection_problem(self._root) or self._edited():
            raise _BlockedError(problem)
        base, self._batch = self._tip(), self._rows.next_batch()
        tree = self._united(base, inverse_of(git, commit))
        if not isinstance(tree, str):
            raise _BlockedError(f"{commit[:SHORT]} cannot be reverted: {words_of(tree)[0]}")
        new = base
        if tree != git.say("rev-parse", f"{base}^{{tree}}"):
            new = git.commit_tree(message, tree, base)
            changed = git.changed_paths(base, new)
            if refused := refused_files(self._root, changed, base, new):
                raise _BlockedError(f"the revert would change {', '.join(refused)}")
            self._say(f"reverting {commit[:SHORT]}: checks run on {new[:SHORT]}")
            if not self._passes(new, base, [], [task]):
                failure = self._red(self._failure)
                text = f'"{failure.name}" fails without {commit[:SHORT]}: nothing was changed'
                raise ProjectError(text, output=failure.tail)
        with self._landing():
            if new != base:
                self._advance(base, new)
            landed(new if new != base else "")
        keep_rows(self._root, self._say, syncs=self._config.remote is not None)

    def _tip(self) -> str:
        return self._git.say("rev-parse", f"refs/heads/{self._target}")

    def _round(self) -> bool:
        """Merge one batch; return whether another round may end more entries.

        Raises `_BlockedError` and `_BehindError`.
        """
        self._left_reason = self._plain = ""
        if not (entries := self._present()):
            return False
        try:
            problem = fetch_base(self._git, self._target, self._config)
        except RemoteError as error:
            raise _BlockedError(_one_line(error)) from error
        if problem := problem or protection_problem(self._root) or self._edited():
            raise _BlockedError(problem)
        base, self._batch = self._tip(), self._rows.next_batch()
        entries = self._settled(entries, base)
        members, has_ended = self._built(base, entries)
        if not members:
            return has_ended
        if self._passes(members[-1].head, base, members, fresh=self._is_there(base, members)):
            self._land(members, base)
            self.window = min(2 * self.window, LARGEST_WINDOW)
            return True
        self.window = max(self.window // 2, 1)
        self._search(members, base)
        return True

    def _is_there(self, base: str, members: Sequence[Member]) -> bool:
        """Return whether changes of a member came into the branch in another way.

        Then the branch has to pass: an agent may have moved it itself.
        """
        heads = [base, *(one.head for one in members)]
        works = (
            one.entry.work for one, head in zip(members, heads, strict=False) if one.head == head
        )
        return any(
            self._git.run_quietly("diff-tree", "--quiet", f"{one}^", one).code for one in works
        )

    def _edited(self) -> str:
        """Return why the branch cannot move where it is checked out, empty if it can."""
        tree = users_checkout(self._git, self._target)
        changed = [] if tree is None else changed_in(tree)
        if tree is None or not changed:
            return ""
        return f'files were changed in "{tree.folder}": {", ".join(changed[:3])}'

    def _present(self) -> list[QueuedMerge]:
        """Return the waiting entries whose commits this repository has."""
        present = []
        kept = self._entry_commits()
        for entry in self.waiting():
            if reason := self._skipped.get(entry.number):
                self._left_reason = reason
                continue
            if kept.get(f"{REF}{entry.number}") != entry.work:
                if entry.worker is not None and not self.has(entry):
                    self._fetch(entry)
                if not self.has(entry):
                    self._left_reason = ELSEWHERE
                    continue
                self._git.say("update-ref", f"{REF}{entry.number}", entry.work)
            present.append(entry)
        return present

    def _entry_commits(self) -> dict[str, str]:
        """Return the commits that this repository keeps for entries, by ref."""
        listed = self._git.say("for-each-ref", "--format=%(refname) %(objectname)", REF)
        return dict(line.split(" ") for line in listed.splitlines())

    def _fetch(self, entry: QueuedMerge) -> None:
        """Fetch the branch that a worker has pushed; the commit of the entry decides."""
        if self._config.remote is not None:
            branch = f"refs/heads/{_pushed_branch(entry)}"
            words = ("fetch", "--quiet", "--no-tags", "--", self._config.remote)
            self._git.run_quietly(*words, f"+{branch}:{REF}{entry.number}")

    def settle(self) -> None:
        """Record the entries that a killed queue has landed, and let the others wait again.

        Use it in the block of `alone`. Raises `ProjectError` if that is unknown now, such as while
        the remote does not answer.
        """
        if all(one.landing is None for one in self.waiting()):
            return
        problem = fetch_base(self._git, self._target, self._config)
        self._settled(self.waiting(), self._tip())
        if landing := [one for one in self.waiting() if one.landing is not None]:
            raise ProjectError(f"merge {landing[0].number} may have landed: {problem or ELSEWHERE}")

    def _settled(self, entries: Sequence[QueuedMerge], base: str) -> list[QueuedMerge]:
        """Record the entries that a killed queue has landed, by its own record; return the others.

        The queue claims a batch as a whole, so it has landed only as a whole. Work that came into
        the branch in another way must pass there, like any other. Without a remote, only this
        repository has the branch.
        """
        claimed = [one for one in entries if one.landing is not None]
        if not claimed:
            return [*entries]
        here = self._first_parents(base)
        theirs = self._first_parents(f"refs/remotes/{self._config.remote}/{self._target}")
        for batch in sorted({one.batch or 0 for one in claimed}):
            members = [one for one in claimed if (one.batch or 0) == batch]
            commits = {one.landing for one in members if one.landing}
            if commits and commits <= here:
                found = [(one, Merged(one.landing or base)) for one in members]
                self._finished(found, members[0].batch)
            elif commits.isdisjoint(theirs):
                self._rows.release_landing([one.number for one in members])
            else:
                self._left_reason = f"it may have landed: {ELSEWHERE}"
        left = {one.number for one in self.waiting() if one.landing is None}
        return [one for one in entries if one.number in left]

    def _first_parents(self, commit: str) -> set[str]:
        """Return a commit and its ancestors by first parents; none if it is missing."""
        if self._git.commit(commit) is None:
            return set()
        return {*self._git.say("rev-list", "--first-parent", commit).splitlines()}

    def _built(self, base: str, entries: Sequence[QueuedMerge]) -> tuple[list[Member], bool]:
        """Merge entries onto a commit in memory, one after the other, up to the window.

        Returns the batch, and whether an entry was returned. An entry that conflicts only with an
        earlier one of the batch is left out: the earlier one may fail.
        """
        members: list[Member] = []
        head, has_ended = base, False
        for entry in entries:
            if len(members) >= self.window:
                break
            made = self._merged(head, entry)
            if isinstance(made, str):
                members.append(Member(entry, made, made if made != head else ""))
                head = made
                continue
            if head != base and isinstance(made, Conflict | RedCheck):
                alone = self._merged(base, entry)
                if isinstance(alone, str):
                    continue
                made = alone
            has_ended = self._return(entry, made) or has_ended
        return members, has_ended

    def _merged(self, head: str, entry: QueuedMerge) -> str | Failed:
        """Return a merge commit of an entry on a head, or why it cannot be merged.

        An entry that changes nothing there leaves the head.
        """
        git = self._git
        found = self._united(head, entry.work)
        if not isinstance(found, str):
            return found
        if self._tree[0] != head:
            self._tree = head, git.say("rev-parse", f"{head}^{{tree}}")
        if found == self._tree[1]:
            return head
        changed = git.changed_paths(head, found)
        if refused := refused_files(self._root, changed, head, found):
            return Refused(refused, "")
        proved = self._rows.proved(entry.tree, entry.task) if entry.tree else set()
        names = [one["name"] for one in self._checks([entry]) if _key(one) in proved]
        message = merge_message(self._config, self._title(entry.task), entry.task)
        lines = _trailers(entry, names, entry.tree or found, self._batch)
        message = message or f"Merge task {entry.task}"
        if entry.task is None:
            message = f"Merge {entry.work[:SHORT]}"
        made = git.commit_tree(_with_trailers(message, lines), found, head, entry.work)
        self._tree = made, found
        if self._plain == head and not any(PurePath(one).name == RULES for one in changed):
            self._plain = made
        return made

    def _united(self, head: str, work: str) -> str | Failed:
        """Return the tree of a merge, made without a checkout if possible, or its conflict."""
        git = self._git
        if not self._has_rules(head):
            found = merge_in_memory(git, head, work)
            if found is not None:
                return found if isinstance(found, str) else Conflict(found, "")
        with checkout(self._root, MERGE, self._config, self._say, self._stop) as place:
            place.set_to(head, head, head)
            own = Git(self._root, Path(place.git.repository.top))
            ended = own.run_quietly("merge", "--quiet", "--no-commit", "--no-ff", work)
            if not ended.code:
                return own.say("write-tree")
            files = own.names("diff", "--name-only", "--diff-filter=U")
        if files:
            return Conflict(tuple(files), "")
        git.refuse_unwritable()
        return RedCheck("merge", ended.tail, "")

    def _has_rules(self, head: str) -> bool:
        """Return whether files of a commit, or the settings, determine how git merges a file.

        `git merge-tree` reads no `.gitattributes` of a commit, and drivers need a work tree.
        """
        if self._plain == head:
            return False
        words = ("grep", "--quiet", "-E", "merge|binary", head, "--", f":(glob)**/{RULES}")
        if not self._git.run_quietly(*words).code:
            return True
        if not self._git.run_quietly("config", "--get-regexp", r"^merge\..*\.driver$").code:
            return True
        self._plain = head
        return False

    def _title(self, task: int | None) -> str:
        if task is None:
            return ""
        found = self._rows.tasks([task]).get(task)
        return "" if found is None else found.title

    def _search(self, members: Sequence[Member], base: str) -> None:
        """Land the members before the first failing one; return that one if it is at fault."""
        failure, low, high, at, has_passed = self._failure, 0, len(members), base, False
        while high - low > 1:
            middle = (low + high) // 2
            if self._passes(members[middle - 1].head, at, members[:middle]):
                has_passed = True
                self._land(members[low:middle], at)
                low, at = middle, members[middle - 1].head
            else:
                high, failure = middle, self._failure
        suspect = members[high - 1]
        rest = self._rebuilt(at, [one.entry for one in members[high:]])
        if rest and self._passes(rest[-1].head, at, rest):
            self._return(suspect.entry, self._red(failure))
            self._land(rest, at)
            return
        if self._passes(suspect.head, at, [suspect], fresh=True):
            self._say(f"flaky: {failure.name if failure else ''}")
            self._land([suspect], at, flaky=failure.name if failure else "")
            return
        failure = self._failure
        is_new = suspect.head != at
        if (
            is_new
            and not (has_passed or self._allow_failing_base)
            and not self._passes(at, at, [], [suspect.entry.task], fresh=True)
        ):
            raise self._base_error()
        self._return(suspect.entry, self._red(failure))

    def _rebuilt(self, at: str, entries: Sequence[QueuedMerge]) -> list[Member]:
        """Merge entries onto a commit again; ones that conflict wait for the next round."""
        members: list[Member] = []
        for entry in entries:
            head = members[-1].head if members else at
            made = self._merged(head, entry)
            if isinstance(made, str):
                members.append(Member(entry, made, made if made != head else ""))
        return members

    @staticmethod
    def _red(failure: CheckFailure | None) -> RedCheck:
        return RedCheck(*(failure or CheckFailure(ALL, "")), "")

    def _base_error(self) -> ProgramError:
        failure = self._failure or CheckFailure(ALL, "")
        if failure.name == ALL:
            text = f"the checks give no proof on the base branch: {failure.tail}"
            return ProgramError(text)
        text = f'check "{failure.name}" already fails on {self._target}'
        hint = "fix it, or pass --allow-failing-base if a task fixes it"
        return ProgramError(text, hint, failure.tail)

    def _checks(
        self, entries: Sequence[QueuedMerge], tasks: Sequence[int | None] = ()
    ) -> list[Any]:
        """Return each check that applies to an entry or a task, in the order of the settings."""
        rules = done_rules(read_settings(self._root))
        if rules is None:
            return []
        done = done_facts(rules)
        wanted = {*tasks, *(one.task for one in entries)}
        disciplines: set[object] = {None} if None in wanted else set()
        ids = {one for one in wanted if one is not None}
        disciplines.update(one.discipline for one in self._rows.tasks(ids).values())
        names = {one["name"] for own in disciplines for one in checks_for(done, own)}
        return [one for one in done["checks"] if one["name"] in names]

    def _passes(
        self,
        head: str,
        base: str,
        members: Sequence[Member],
        tasks: Sequence[int | None] = (),
        *,
        fresh: bool = False,
    ) -> bool:
        """Return whether the checks of the members, or of some tasks, pass on a commit.

        Without `fresh`, evidence of an earlier run is enough. The results become evidence. Raises
        `ProgramError` if no work can pass now: the checks change files, or a disk is full.
        """
        entries = [one.entry for one in members]
        checks = self._checks(entries, tasks)
        tree = self._git.say("rev-parse", f"{head}^{{tree}}")
        own = entries[0].task if len(entries) == 1 else None
        if not checks or (not fresh and self._rows.proved(tree, own).issuperset(map(_key, checks))):
            return True
        if self._stop is not None and self._stop.is_set():
            raise _BlockedError("the loop was stopped")
        if foreign := untrusted(self._root, check_items(read_settings(self._root).done)):
            raise ProjectError(f"not trusted: {foreign[0].shown}", 'run "ralphgen trust"')
        if members:
            names = (f"task {one.task}" if one.task else f"merge {one.number}" for one in entries)
            self._say(f"merging {', '.join(names)}: checks run on {head[:SHORT]}")
        numbers = [one.number for one in entries]
        run = self._rows.open_run(Checked(self._batch, base, head, tree, numbers))
        ids_of_tasks = [one.task for one in entries if one.task is not None]
        ids_of_tasks += [one for one in tasks if one is not None]
        failure, results = self._failed(head, checks, ids_of_tasks)
        self._rows.close_run(run, checks, results, passed=failure is None)
        if failure is not None:
            self._failure = failure
        return failure is None

    def _failed(
        self, head: str, checks: Sequence[Check], tasks: Sequence[int]
    ) -> tuple[CheckFailure | None, Sequence[Check]]:
        """Run the setup if needed, and checks on a commit; return the first failing one.

        The second value are the results.
        """
        with checkout(self._root, MERGE, self._config, self._say, self._stop) as place:
            try:
                place.set_to(head, head, head)
            except ProgramError as error:
                return CheckFailure(SETUP, str(error)), ()
            work_tree = Path(place.place)
            if not all("run" in one for one in checks):  # only a server runs a task of a kit
                answers = [
                    failed_check(
                        self._root, work_tree, task, trust_edited=self._trust_edited, say=self._say
                    )
                    for task in one_of_each(self._root, tasks)
                ]
                failure = next((one for one in answers if one is not None), None)
                results = (
                    [] if failure else [{"name": one["name"], "exit_code": 0} for one in checks]
                )
            else:
                rules = done_rules(read_settings(self._root))
                done = {} if rules is None else done_facts(rules)
                answer = checked_files(self._root, work_tree, done, checks, current_rules())
                results = answer["checks"]
                red = next((one for one in results if one["exit_code"] != 0), None)
                failure = None if red is None else CheckFailure(red["name"], red["tail"])
                if failure is None and not answer["passed"]:
                    why = answer.get("not_proved", "")
                    raise ProgramError(f"the checks give no proof: {why}")
            if failure is None and (changed := place.changed()):
                text = f"files were changed while the checks ran: {', '.join(changed)}"
                raise ProgramError(f"the checks give no proof: {text}")
        if failure is not None:
            if FULL.search(failure.tail):
                text = f'"{failure.name}" failed: the disk is full'
                raise ProgramError(text, WRITE_HINT, failure.tail)
            refuse_full_disk((work_tree,))
        return failure, results

    def _land(self, members: Sequence[Member], old: str, *, flaky: str = "") -> None:
        """Push the head of the members, move the branch to it, and record the merges.

        Raises `_DroppedError` if one of them was dropped, and the errors of `_landing` and
        `_advance`.
        """
        new = members[-1].head
        with self._landing():
            commits = {one.entry.number: one.landing for one in members}
            if not self._rows.claim_landing(commits, self._batch):
                raise _DroppedError
            try:
                recorded = self._advance(old, new) if new != old else ()
            except (_BehindError, _BlockedError, PushRefusedError) as error:
                has_stayed = self._config.remote is None and new not in self._first_parents(
                    self._tip()
                )
                if has_stayed or isinstance(error, PushRefusedError):
                    self._rows.release_landing(commits)
                raise
            found = []
            for one in members:
                checked = bool(self._checks([one.entry]))
                merged = Merged(one.head, recorded, is_checked=checked, flaky=flaky)
                found.append((one.entry, merged))
                recorded = ()
            self._finished(found, self._batch)
        keep_rows(self._root, self._say, syncs=self._config.remote is not None)

    @contextmanager
    def _landing(self) -> Iterator[None]:
        """Let nothing else move the branch during the block.

        Raises `_BlockedError` without the lease, such as after a long pause of this machine.
        """
        if not self._rows.keep():
            raise _BlockedError(OTHER_RUNNER)
        with landing(self._root):
            yield

    def _advance(self, old: str, new: str) -> tuple[str, ...]:
        """Push a commit and move the branch to it; return the files whose content is now trusted.

        Raises `_BehindError`, `_BlockedError` and `PushRefusedError`.
        """
        git = self._git
        self._push(new)
        if self._tip() != old:
            raise _BehindError
        if (reason := move_base(git, self._target, old, new)) is not None:
            raise _BlockedError(reason)
        return self._recorded(git.changed_paths(old, new))

    def _push(self, commit: str) -> None:
        remote = self._config.remote
        if remote is None:
            return
        pushed = self._git.push(remote, commit, self._target)
        if pushed.outcome == "behind":
            raise _BehindError
        if pushed.outcome == "unreachable":
            raise _BlockedError(_one_line(unreachable(remote, pushed.words)))
        if pushed.outcome == "refused":
            words = "; ".join(pushed.words.splitlines())
            reason = f'"{remote}" rejects the push of "{self._target}": {words}'
            self._blocked(reason)
            raise PushRefusedError(reason, PUSH_HINT)

    def _recorded(self, changed: Sequence[str]) -> tuple[str, ...]:
        """Record the content that a merge changed as trusted; return its paths."""
        top, place = top_of(self._root), self._root.resolve()
        files = {top / path for path in changed}
        items = [item for item in content_items(place) if Path(item.file) in files]
        record_items(self._root, items)
        return tuple(Path(item.file).relative_to(place).as_posix() for item in items)

    def _finished(self, found: Sequence[tuple[QueuedMerge, Merged]], batch: int | None) -> None:
        """Record merged entries in one transaction, then remove what kept their work."""
        commits = {entry.number: outcome.commit for entry, outcome in found}
        flaky = next((outcome.flaky for _, outcome in found), "")
        self._rows.land(commits, batch, flaky=flaky)
        entries = [entry for entry, _ in found]
        works = {one.task: (one.work, one.session or "") for one in entries if one.task is not None}
        try:
            if works:
                forget_merged(self._git, works)
            delete_refs(self._git, *(f"{REF}{number}" for number in commits))
        finally:
            for entry, outcome in found:
                self._ended(entry, outcome)

    def _return(self, entry: QueuedMerge, outcome: Failed) -> bool:
        """Return an entry to its task, with its work on a branch; return whether it ended.

        The second failure of a task blocks it. If the project has no blocked tasks, it waits.
        """
        git = self._git
        if entry.number not in {one.number for one in self.waiting()}:
            return True  # it was dropped meanwhile
        if self._rows.is_remote and entry.worker is not None:
            outcome = replace(outcome, branch=_pushed_branch(entry))
        elif entry.task is not None:
            branch = aside(git, _branch_of(git, entry), self._say)
            session = entry.session or ""
            outcome = record_failure(git, entry.task, session, replace(outcome, branch=branch))
        else:
            outcome = replace(outcome, branch=_branch_of(git, entry))
        text = words_of(outcome)[0]
        refused = isinstance(outcome, Refused)
        has_ended = self._rows.send_back(
            *(entry, self._batch, text),
            outcome.tail if isinstance(outcome, RedCheck) else "",
            refused=refused,
            repeats=outcome.is_last and not refused,
        )
        if not has_ended:
            self._skipped[entry.number] = self._left_reason = text
            return False
        delete_refs(git, f"{REF}{entry.number}")
        self._ended(entry, outcome)
        return True


def merge_in_memory(git: Git, head: str, work: str) -> str | tuple[str, ...] | None:
    """Return the tree of a merge, or the files that conflict; None if this git cannot tell."""
    words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
    ended = git.run_quietly(*words, head, work)
    if ended.code not in (0, 1) or not ended.output:  # an unknown command ends with 1, too
        return None
    tree, *files = [part for part in ended.output.split("\0") if part]
    return tuple(files) if ended.code else tree


def inverse_of(git: Git, commit: str) -> str:
    """Return a commit whose merge takes the changes of a merge commit out of a branch.

    It is on top of that commit and has the tree of its first parent. No branch gets it.
    """
    return git.say("commit-tree", "-p", commit, "-m", "Revert", f"{commit}^1^{{tree}}")


def _pushed_branch(entry: QueuedMerge) -> str:
    """Return the branch of the remote to which a worker has pushed an entry."""
    return f"{BRANCH}{entry.task}-{entry.session}"


def _branch_of(git: Git, entry: QueuedMerge) -> str:
    """Return the branch of an entry's work; it is created if there is none."""
    name = f"{BRANCH}{entry.task}" if entry.task is not None else f"{LEFT}{entry.number}"
    for branch, commit in sorted(git.branches(f"{name}*").items()):
        if commit == entry.work:
            return branch
    branch = next_name(git, name)
    create_branch(git, branch, entry.work)
    return branch


def _key(check: Check) -> tuple[str, str]:
    return check["name"], definition_of(check)


def _trailers(entry: QueuedMerge, checks: Sequence[str], tree: str, batch: int) -> str:
    """Return the lines of a merge commit on its task, session, proof and batch."""
    results = " ".join(f"{NO_WORD.sub('-', name)}=0" for name in checks)
    lines = [
        f"Ralphgen-Task: {entry.task}" if entry.task is not None else "",
        f"Ralphgen-Session: {one_line(entry.session)}" if entry.session else "",
        f"Ralphgen-Proof: {results}{' ' * bool(results)}tree={tree}",
        f"Ralphgen-Batch: {batch}",
    ]
    return "\n".join(filter(None, lines))


def _with_trailers(message: str, trailers: str) -> str:
    """Return a message with trailers; git reads only those of the last paragraph."""
    _, *others = message.rstrip().split("\n\n")
    is_block = bool(others) and all(map(TRAILER.match, others[-1].splitlines()))
    separator = "\n" if is_block else "\n\n"
    return f"{message.rstrip()}{separator}{trailers}"


def _one_line(error: RemoteError) -> str:
    """Return the error of a remote with the words of git behind it."""
    (problem,) = error.problems
    return "; ".join([problem.text, *filter(None, map(str.strip, problem.output.splitlines()))])


def read_queue(
    root: Path, *, only_waiting: bool = False
) -> tuple[list[QueuedMerge], list[merges.MergeRun]]:
    """Return the waiting entries in order, or the newest of any state, with the newest runs.

    Both are empty if the project has no ledger.
    """
    with open_database(root) as database:
        if state_of(database).version is None:
            return [], []
        found = merges.waiting(database) if only_waiting else merges.newest(database, LISTED)
        return found, merges.runs(database, LISTED)


def targets(root: Path) -> list[str]:
    """Return the branches for which work waits."""
    with open_database(root) as database:
        return sorted({one.target for one in merges.waiting(database)})


def drop_entry(root: Path, number: int, say: Say) -> str:
    """Drop a waiting entry; return the branch that keeps its work, empty if none waits.

    If it was the work of a task, the task remains done, and its dependents wait until the user sets
    its status; `say` gets a line about that. Raises `ProjectError` for an entry that may have
    landed.
    """
    git = Git(root)
    with open_database(root) as database:
        entry = merges.merge_of(database, number)
    if entry is None or entry.state != merges.WAITING:
        return ""
    if entry.landing is not None:
        queue = MergeQueue(root, entry.target, read_settings(root).loop, say)
        with queue.alone() as is_alone:
            if not is_alone:
                raise ProjectError(f"merge {number} is being merged now", "ralphgen merges")
            queue.settle()
    if git.commit(entry.work) is None:
        raise ProjectError(f"merge {number}: {ELSEWHERE}")
    with opened_database(root) as database:
        if not database.writing(lambda: claims.drop_merge(database, number, "dropped by the user")):
            return ""
    branch = _branch_of(git, entry)  # until the ref of the entry is deleted, that keeps its work
    delete_refs(git, f"{REF}{number}")
    if entry.task is None:
        return branch
    text = f"task {entry.task} remains done, and its dependents wait until you set its status"
    say(f"{text}: ralphgen task status {entry.task} pending")
    return aside(git, branch, say)
