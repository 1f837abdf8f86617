"""Runs git, and commands that prepare a work tree: without a terminal, and to their end."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, Literal, NamedTuple

from ralphgen.emit.trust import trusted_settings
from ralphgen.errors import ProgramError, ProjectError
from ralphgen.project.git import ask_git, settings_of
from ralphgen.project.root import FOLDER
from ralphgen.runtime.files.checkout import CHANGED
from ralphgen.runtime.files.git import run_git
from ralphgen.runtime.files.main_tree import linked_tree, repository_of
from ralphgen.runtime.files.work_tree import GITLINK, nested_repositories
from ralphgen.runtime.processes.sandbox import contained
from ralphgen.runtime.processes.secrets import masked, passed_on

# The hooks of the loop's actions: it commits, merges, checks out, and pushes.
HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit"),
    *("post-merge", "post-checkout", "pre-push", "reference-transaction", "post-index-change"),
)
OWN_BRANCHES = "ralph/"  # prefix of the branches that the loop creates
BASE = "refs/ralph/base/"  # by task: a symbolic ref to the branch that its work is for
HOOK_FOLDERS = frozenset({".githooks", ".husky"})  # scripts of the user's hooks
SECONDS = 3_600  # that a filter, a fetch or a setup may take
LOOK = 0.1  # seconds between checks whether to stop a command
TAIL = 2_000  # characters of a command's output
NO_TERMINAL = {"GIT_ASKPASS": "true", "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}


PAUSES = (1.0, 5.0)  # seconds before an interrupted push is retried
# Git's words for a branch locked by another push or by a crash.
LOCKED = re.compile("failed to update ref|cannot lock ref|failed to lock")
HTTP_REFUSAL = re.compile(r"\bHTTP 4\d\d\b")  # such as of a proxy that limits the size
PROBE = 1 << 20  # bytes that git stores to find out whether it can


class CommandEnd(NamedTuple):
    """How a command ended: its exit code, its standard output, and the end of all it wrote."""

    code: int
    output: str
    tail: str


class Push(NamedTuple):
    """The outcome of a push, and the words of the remote or of git about it.

    `behind` means that the remote's branch has other commits, `refused` that the remote does not
    take this one, and `unreachable` that it gave no answer, or broke off before its answer.
    """

    outcome: Literal["done", "behind", "refused", "unreachable"]
    words: str = ""


def run(
    command: Sequence[str],
    folder: Path,
    seconds: float = SECONDS,
    *,
    root: Path | None = None,
    stop: Event | None = None,
    sandbox: Mapping[str, Any] | None = None,
) -> CommandEnd:
    """Return how a command ended in a folder; it runs to its end even if we are killed.

    If `stop` is given, the command and its children are ended when it is set, and by Ctrl-C.

    It has no terminal, and none of the secrets of the project in `root` (default: the folder),
    because a setup runs programs of the worktree, which the rules of a `sandbox` contain. Raises
    `ProjectError` if it cannot be run, is stopped or takes too long; then it is ended with its
    children.
    """
    inherited = passed_on(str((root or folder) / FOLDER))
    kept = {name: text for name, text in inherited.items() if not name.startswith("GIT_")}
    variables = {**kept, **_identity(), **NO_TERMINAL, "SSH_ASKPASS": "true"}
    try:
        if sandbox is not None:
            command, variables = contained(command, str(folder), variables, sandbox)
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if not folder.is_dir():
            raise ProjectError(f'there is no directory "{folder}"') from error
        raise ProgramError(f'"{command[0]}" cannot be run: {reason}', "install it") from error
    with process:
        try:
            output, errors = _process_output(process, seconds, stop)
        except KeyboardInterrupt:
            if stop is not None:
                _kill(process)
            raise
        except subprocess.TimeoutExpired:
            _kill(process)
            if stop is not None and stop.is_set():
                raise ProjectError(f'"{command[0]}" was stopped in "{folder}"') from None
            text = f'"{command[0]}" took longer than {seconds:g} seconds in "{folder}"'
            raise ProgramError(text, "check what it is waiting for") from None
    said = "\n".join(part.strip() for part in (output, errors) if part.strip())
    return CommandEnd(process.returncode, output, masked(said)[-TAIL:])


def _process_output(
    process: "subprocess.Popen[str]", seconds: float, stop: Event | None
) -> tuple[str, str]:
    """Return the output of a process.

    Raises `TimeoutExpired` if it does not end in time, or if `stop` is set before.
    """
    if stop is None:
        return process.communicate(timeout=seconds)
    end = time.monotonic() + seconds
    while True:
        try:
            return process.communicate(timeout=LOOK)
        except subprocess.TimeoutExpired:
            if stop.is_set() or time.monotonic() > end:
                raise


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _identity() -> dict[str, str]:
    """Return the variables with the identity for commits, if the user has set them globally."""
    names = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    return {name: os.environ[name] for name in names if name in os.environ}


class Git:
    """git in one worktree of a project, its own or an agent's, with the view of the main one."""

    def __init__(self, root: Path, tree: Path | None = None) -> None:
        """Run git in the work tree of the project in `root`, or in the agents' tree at `tree`.

        Raises `ProjectError` if git does not know of it.
        """
        main = repository_of(str(root))
        found = main
        if main is not None and tree is not None:
            found = linked_tree(main.common, os.path.realpath(tree))
        if found is None:
            raise ProjectError(f'"{tree or root}" is not in a git repository', 'run "git init"')
        self.root = root
        self.repository = found
        self.folder = Path(found.top)
        self._settings: list[tuple[str, str]] | None = None

    def run_quietly(self, *words: str, given: bytes = b"") -> CommandEnd:
        """Return how a command of git ended.

        Of all settings in files of the project, only the trusted ones of the main repository apply.
        """
        if self._settings is None:
            self._settings = trusted_settings(self.root)
        variables = passed_on(str(self.root / FOLDER), also=("*",))  # such as SSH_AUTH_SOCK
        try:
            done = run_git(
                self.repository,
                words,
                settings=self._settings,
                given=given,
                seconds=SECONDS,
                variables=variables,
            )
        except OSError as error:
            raise ProgramError("git is not installed", "install git") from error
        if done.code is None:
            text = f'git took longer than {SECONDS:g} seconds in "{self.folder}"'
            raise ProgramError(text, "check what it is waiting for")
        output, errors = (os.fsdecode(text) for text in (done.output, done.errors))
        said = "\n".join(part.strip() for part in (output, errors) if part.strip())
        return CommandEnd(done.code, output, masked(said)[-TAIL:])

    def say(self, *words: str, given: bytes = b"") -> str:
        """Return git's output without its last line end; raises `ProgramError` if it fails."""
        ended = self.run_quietly(*words, given=given)
        if ended.code:
            raise ProgramError(f'git {words[0]} failed in "{self.folder}"', output=ended.tail)
        return ended.output.rstrip("\n")

    def refuse_unwritable(self) -> None:
        """Raise `ProgramError` if git cannot store a file now, as on a full disk."""
        self.say("hash-object", "-w", "--stdin", given=os.urandom(PROBE))

    def try_push(self, remote: str, branch: str) -> Push:
        """Push a branch to a remote without any effect; no hook of the remote runs then."""
        target = f"refs/heads/{branch}"
        words = ("push", "--porcelain", "--dry-run", "--", remote, f"{target}:{target}")
        return self._judged(self.run_quietly(*words), remote, target, target)

    def push(self, remote: str, commit: str, branch: str) -> Push:
        """Push a commit to a branch of a remote, after the files that Git LFS keeps for it.

        Git LFS sends them from the hook `pre-push`, which does not run here.
        """
        target = f"refs/heads/{branch}"
        uses_lfs = self.run_quietly("config", "--get-regexp", r"^filter\.lfs\.").output
        storage = self.run_quietly("config", "--type=path", "--get", "lfs.storage").output.strip()
        if uses_lfs and Path(self.repository.common, storage or "lfs").is_dir():
            line = f"{target} {commit} {target} {'0' * len(commit)}\n"
            sent = self.run_quietly("lfs", "pre-push", remote, given=line.encode())
            if sent.code:
                return self._judged(sent, remote, commit, target)
        words = ("push", "--porcelain", "--", remote, f"{commit}:{target}")
        ended = self.run_quietly(*words)
        for pause in PAUSES:
            if not ended.code or (_rejected(ended) and not LOCKED.search(ended.output)):
                break
            time.sleep(pause)
            ended = self.run_quietly(*words)
        pushed = self._judged(ended, remote, commit, target)
        if pushed.outcome != "refused" or _rejected(ended):
            return pushed
        # Without a verdict the connection broke, or the user may not push: then nor can a dry run.
        tried = self.run_quietly("push", "--dry-run", *words[1:])
        refused = tried.code or HTTP_REFUSAL.search(ended.tail)
        return pushed if refused else Push("unreachable", ended.tail)

    def _judged(self, ended: CommandEnd, remote: str, commit: str, target: str) -> Push:
        """Return the outcome of a push that ended so.

        The remote's branch decides between `behind` and `refused`: a server that lost a race
        between two pushes rejects the second one for any reason.
        """
        if not ended.code:
            return Push("done")
        listed = self.run_quietly("ls-remote", "--", remote, target)
        if listed.code:
            return Push("unreachable", listed.tail)
        branches = (line.split("\t") for line in listed.output.splitlines())
        theirs = [found for found, name in branches if name == target]
        if theirs == [commit]:  # the connection broke, or a hook failed, after the push
            return Push("done")
        if theirs and not self.contains(commit, theirs[0]):
            return Push("behind")
        return Push("refused", _refusal(ended))

    def own_file(self, name: str) -> Path:
        """Return the path of a file that git, or ralphgen, keeps about this work tree."""
        return Path(self.repository.git_dir, name)

    def commit(self, name: str) -> str | None:
        """Return the commit that a name refers to, or None."""
        ended = self.run_quietly("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return None if ended.code else ended.output.strip()

    def contains(self, later: str, earlier: str) -> bool:
        """Return whether a commit is another one's ancestor, or the same."""
        return self.run_quietly("merge-base", "--is-ancestor", earlier, later).code == 0

    def names(self, *words: str) -> list[str]:
        """Return the paths that git lists, which end with NUL."""
        return [name for name in self.say(*words, "-z").split("\0") if name]

    def changed_paths(self, old: str, new: str) -> list[str]:
        """Return the paths from the top that differ between two trees or commits."""
        return self.names(*CHANGED, old, new)

    def branches(self, pattern: str) -> dict[str, str]:
        """Return the commits of the branches that begin like this, by name."""
        listed = self.say(
            "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", f"refs/heads/{pattern}"
        )
        return dict(line.split(" ", 1) for line in listed.splitlines())

    def changes(self) -> list[str]:
        """Return the tracked files that differ from the commit; git enters no submodule."""
        words = ("--porcelain", "--untracked-files=no", "-z")
        listed = self.say("status", *words).split("\0")
        return [entry[3:] for entry in listed if entry[2:3] == " "]

    def submodules(self) -> list[str]:
        """Return the paths that the index has as submodules."""
        return [*self.gitlinks("ls-files", "--stage")]

    def gitlinks(self, *words: str) -> dict[str, str]:
        """Return the commits of submodules that git lists in an index or a tree, by path."""
        entries = (entry.partition("\t") for entry in self.names(*words))
        found = (
            (path, re.search("[0-9a-f]{40,}", facts))
            for facts, _, path in entries
            if facts.startswith(GITLINK)
        )
        return {path: commit[0] for path, commit in found if commit}

    def stage(self, *, whole: bool = True) -> list[str]:
        """Stage the files of the work tree; return the repositories within it, which are not.

        git enters neither these nor submodules. Files that git cannot add raise `ProgramError` if
        the `whole` tree has to be staged.
        """
        known = self.submodules()
        nested = nested_repositories(str(self.folder), known)
        skipped = [f":(top,exclude,literal){path}" for path in (*nested, *known)]
        words = ("--", ":/", *skipped)
        if whole:
            self.say("add", "--all", *words)
        else:
            self.run_quietly("add", "--all", "--ignore-errors", *words)
        return nested

    def checked_out(self) -> str:
        """Return the branch that is checked out, empty if none is."""
        name = self.run_quietly("symbolic-ref", "--quiet", "HEAD").output.strip()
        return name.removeprefix("refs/heads/")

    def try_commit(self) -> None:
        """Make a commit that no branch gets; raise `ProgramError` if git cannot, as without a key.

        It is signed if the settings ask for that.
        """
        self.commit_tree("Try", self.say("rev-parse", "HEAD^{tree}"))

    @cached_property
    def _signs(self) -> bool:
        """Whether commits are signed, by the settings at the time of the first one."""
        asked = self.run_quietly("config", "--type=bool", "--get", "commit.gpgSign")
        return asked.output.strip() == "true"

    def commit_tree(self, message: str, tree: str, *parents: str) -> str:
        """Return a new commit of a tree, which no branch gets.

        git does not enter the work tree, so a program that signs starts outside of it. Raises
        `ProgramError` if git or that program fails.
        """
        words = [word for parent in parents for word in ("-p", parent)]
        words += ["-S"] if self._signs else []
        given = f"{message}\n".encode(errors="surrogateescape")
        made = self.run_quietly("commit-tree", *words, tree, given=given)
        if made.code:
            what, hint = "commit", ""
            if self._signs:
                what = "sign a commit"
                hint = "set user.signingKey to a key that can sign, or unset commit.gpgSign"
            raise ProgramError(f'git cannot {what} in "{self.folder}"', hint, made.tail)
        return made.output.strip()


def _rejected(ended: CommandEnd) -> list[str]:
    """Return the lines of `git push --porcelain` on branches that were rejected."""
    return [line for line in ended.output.splitlines() if line.startswith("!\t")]


def _refusal(ended: CommandEnd) -> str:
    """Return why a push was refused: the summary of git, then the remote's own lines.

    A line of `--porcelain` has a flag, both refs and a summary, between tabs. Without one git did
    not get as far as the branch.
    """
    rejected = _rejected(ended)
    if not rejected:
        return ended.tail
    own = [line.partition(":")[2] for line in ended.tail.splitlines() if line[:7] == "remote:"]
    lines = (line.strip() for line in (rejected[0].rpartition("\t")[2], *own))
    return "\n".join(line for line in lines if line)


def tree_at(root: Path, path: Path) -> Git | None:
    """Return git in an agents' work tree; None if the tree is gone, or git does not know of it."""
    main = repository_of(str(root))
    if main is None or not path.is_dir() or linked_tree(main.common, str(path.resolve())) is None:
        return None
    return Git(root, path)


def top_of(root: Path) -> Path:
    """Return the top of the worktree that contains a project.

    Raises `ProjectError` if there is none, or if its repository has no commits.
    """
    git = Git(root)
    if git.commit("HEAD") is None:
        raise ProjectError(
            f'the repository in "{git.folder}" has no commits', "commit the project first"
        )
    return git.folder


def refuse_task_branch(branch: str) -> None:
    """Raise `ProjectError` for a branch with a name that the loop gives to its own branches."""
    if branch.casefold().startswith(OWN_BRANCHES):
        text = f'"{branch}" is checked out, and branches in "{OWN_BRANCHES}" are for tasks'
        raise ProjectError(text, 'check out your own branch, for example with "git switch main"')


def base_branch(root: Path, onto: str = "") -> str:
    """Return the branch that work is merged into: `onto`, or else the branch that is checked out.

    Raises `ProjectError` if there is none, or if its name is reserved for the loop's branches.
    """
    if onto:
        return onto
    git = Git(root)
    ended = git.run_quietly("symbolic-ref", "--quiet", "--short", "HEAD")
    if ended.code:
        text = f'no branch is checked out in "{git.folder}": there is nothing to merge into'
        raise ProjectError(text, 'check one out, for example with "git switch main"')
    branch = ended.output.strip()
    refuse_task_branch(branch)
    return branch


def unmerged_branches(top: Path | None, targets: Iterable[str]) -> list[str]:
    """Return the branches of tasks with commits that no other branch received.

    Other branches are the current one, the `targets` of earlier merges, and the bases of current
    work.
    """
    if top is None:
        return []
    bases = ask_git(top, ["for-each-ref", "--format=%(symref)", BASE]) or b""
    wanted = {f"refs/heads/{name}" for name in targets} | {*os.fsdecode(bases).split()}
    listed = ask_git(top, ["for-each-ref", "--format=%(refname)", "refs/heads/"]) or b""
    present = sorted(wanted.intersection(os.fsdecode(listed).split()))
    words = [f"--no-merged={ref}" for ref in ("HEAD", *present)]
    form = "--format=%(refname:lstrip=2)"
    answer = ask_git(top, ["for-each-ref", *words, form, f"refs/heads/{OWN_BRANCHES}"])
    return os.fsdecode(answer or b"").splitlines()


def skipped_hooks(root: Path) -> list[str]:
    """Return the hooks that git would start for the loop's commands if ralphgen let it."""
    place = _hooks_folder(Git(root))
    return [name for name in HOOKS if os.access(place / name, os.X_OK)]


def hooks_among(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the paths, from the top of the work tree, that the user's git starts as hooks."""
    git = Git(root)
    folder = _hooks_folder(git)
    return [
        path
        for path in paths
        if (path in HOOKS if folder == git.folder else (git.folder / path).is_relative_to(folder))
        or not HOOK_FOLDERS.isdisjoint(path.casefold().split("/"))
    ]


def _hooks_folder(git: Git) -> Path:
    named = git.run_quietly("config", "--global", "--type=path", "--get", "core.hooksPath").output
    own = [value for key, value in settings_of(git.folder) if key == "core.hookspath"]
    folder = own[-1] if own else named.rstrip("\n") or f"{git.repository.common}/hooks"
    return Path(os.path.normpath(git.folder / Path(folder).expanduser()))
