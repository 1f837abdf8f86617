"""Runs git, and commands that prepare a work tree: without a terminal, and to their end."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from threading import Event
from typing import NamedTuple

from ralphgen.errors import ProjectError
from ralphgen.project.root import FOLDER
from ralphgen.runtime.files.main_tree import tree_top
from ralphgen.runtime.processes.inherited import passed_on

# Nobody is asked anything; what another git, or a hook that called us, has set is not for this one.
QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no"}
SETTINGS = ("gc.auto=0", "merge.autoStash=false", "advice.detachedHead=false")
SECONDS = 3_600  # that a hook, a fetch or a setup may take
LOOK = 0.1  # seconds between two looks at whether a command is to be stopped
TAIL = 2_000  # characters of what a command wrote
NO_TERMINAL = {"GIT_ASKPASS": "true", "SSH_ASKPASS": "true"}


class CommandEnd(NamedTuple):
    """How a command ended: its exit code, its standard output, and the end of all it wrote."""

    code: int
    output: str
    tail: str


def run(
    command: Sequence[str],
    folder: Path,
    seconds: float = SECONDS,
    *,
    root: Path | None = None,
    stop: Event | None = None,
) -> CommandEnd:
    """Return how a command ended in a folder; it lives on to its end where we are killed.

    One that may be stopped is ended, with what it has started, when `stop` is set, and by Ctrl-C.

    It has no terminal, and none of the secrets of the project, which lies in `root`, else in the
    folder: a hook is a program of the work tree. Raises `ProjectError` where it cannot be run, is
    stopped or takes too long; then it is ended, with what it has started.
    """
    inherited = passed_on(str((root or folder) / FOLDER))
    kept = {name: text for name, text in inherited.items() if not name.startswith("GIT_")}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**kept, **_identity(), **QUIET, **NO_TERMINAL},
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
            raise ProjectError(f'there is no folder "{folder}"') from error
        raise ProjectError(f'"{command[0]}" cannot be run: {reason}', "install it") from error
    with process:
        try:
            output, errors = _written(process, seconds, stop)
        except KeyboardInterrupt:
            if stop is not None:
                _kill(process)
            raise
        except subprocess.TimeoutExpired:
            _kill(process)
            if stop is not None and stop.is_set():
                raise ProjectError(f'"{command[0]}" was stopped in "{folder}"') from None
            text = f'"{command[0]}" took longer than {seconds:g} seconds in "{folder}"'
            raise ProjectError(text, "see what it waits for") from None
    said = "\n".join(part.strip() for part in (output, errors) if part.strip())
    return CommandEnd(process.returncode, output, said[-TAIL:])


def _written(
    process: "subprocess.Popen[str]", seconds: float, stop: Event | None
) -> tuple[str, str]:
    """Return what a process writes until its end.

    Raises `TimeoutExpired` where that does not come in time, or it is to be stopped before.
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
    """Return the variables that say who commits; a person may have set them for all programs."""
    names = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    return {name: os.environ[name] for name in names if name in os.environ}


class Git:
    """git in one work tree; `folder` is its top."""

    def __init__(self, folder: Path) -> None:
        """Run git in `folder`."""
        self.folder = folder

    def asked(self, *words: str) -> CommandEnd:
        """Return how a command of git ended."""
        program = which("git")
        if program is None:
            raise ProjectError("there is no git", "install it")
        settings = [word for one in SETTINGS for word in ("-c", one)]
        return run([program, *settings, *words], self.folder)

    def say(self, *words: str) -> str:
        """Return what git answers, without its last line end; raises `ProjectError` if it fails."""
        ended = self.asked(*words)
        if ended.code:
            raise ProjectError(f'git {words[0]} failed in "{self.folder}"', output=ended.tail)
        return ended.output.rstrip("\n")

    def commit(self, name: str) -> str | None:
        """Return the commit that a name stands for, None where it stands for none."""
        ended = self.asked("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return None if ended.code else ended.output.strip()

    def contains(self, later: str, earlier: str) -> bool:
        """Return whether a commit is another one's ancestor, or the same."""
        return self.asked("merge-base", "--is-ancestor", earlier, later).code == 0

    def names(self, *words: str) -> list[str]:
        """Return the paths that git lists, which end with NUL."""
        return [name for name in self.say(*words, "-z").split("\0") if name]

    def branches(self, pattern: str) -> dict[str, str]:
        """Return the commits of the branches that begin like this, by name."""
        listed = self.say(
            "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", f"refs/heads/{pattern}"
        )
        return dict(line.split(" ", 1) for line in listed.splitlines())


def top_of(root: Path) -> Path:
    """Return the top of the work tree that a project lies in.

    Raises `ProjectError` where it lies in none, or in a repository without a commit.
    """
    top = tree_top(os.path.realpath(root))
    if top is None:
        raise ProjectError(f'"{root}" is in no repository of git', 'run "git init", and commit')
    if Git(Path(top)).commit("HEAD") is None:
        raise ProjectError(f'the repository in "{top}" has no commit', "commit the project first")
    return Path(top)


def base_branch(top: Path) -> str:
    """Return the branch that is checked out; raises `ProjectError` where none is."""
    ended = Git(top).asked("symbolic-ref", "--quiet", "--short", "HEAD")
    if ended.code:
        text = f'no branch is checked out in "{top}": there is nothing to merge into'
        raise ProjectError(text, 'check one out, such as "git switch main"')
    return ended.output.strip()
