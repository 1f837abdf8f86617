"""Asks git what commits and the index hold; nothing of a repository's settings is run."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from ralphgen.runtime.files.work_tree import SETTINGS

# The settings of a repository may name programs, to fetch from for example.
SHUT = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_OPTIONAL_LOCKS": "0"}


def work_tree_around(place: Path) -> Path | None:
    """Return the nearest folder above a resolved path that holds a repository, if there is one."""
    return next((one for one in place.parents if os.path.lexists(one / ".git")), None)


def ask_git(top: Path, arguments: Sequence[str], asked: bytes = b"") -> bytes | None:
    """Return what git answers in the work tree `top` to `asked`; None without git or an answer.

    Named, the repository is the one that was found: a folder can be made to look like another.
    """
    program = which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *_opened(top), *arguments],
            cwd=top,
            env=_environment(),
            input=asked,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return None if done.returncode else done.stdout


def begin_of_git(top: Path, arguments: Sequence[str], most: int) -> bytes | None:
    """Return the first bytes of what git answers in the work tree `top`; None as in `ask_git`.

    Where there are more, git is ended. Files are read without the filters of any settings.
    """
    program = which("git")
    if program is None:
        return None
    try:
        process = subprocess.Popen(
            [program, *_opened(top), *arguments],
            cwd=top,
            env={**_environment(), **_without_filters(top)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    with process:
        found = b"" if process.stdout is None else process.stdout.read(most)
        if len(found) == most:
            process.kill()
            return found
    return None if process.returncode else found


def _opened(top: Path) -> list[str]:
    settled = [word for one in SETTINGS for word in ("-c", one)]
    return [*settled, "--git-dir", str(top / ".git"), "--work-tree", str(top)]


def _without_filters(top: Path) -> dict[str, str]:
    """Return variables by which git starts none of the programs that settings name as filters."""
    listed = ask_git(top, ["config", "--null", "--name-only", "--get-regexp", r"^filter\."]) or b""
    drivers = {name.rpartition(b".")[0] for name in listed.split(b"\0") if name}
    shut = [
        (f"{os.fsdecode(driver)}.{key}", value)
        for driver in sorted(drivers)
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    found = {"GIT_CONFIG_COUNT": str(len(shut))}
    for at, (key, value) in enumerate(shut):
        found |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": value}
    return found


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **SHUT}


def read_files_of_git(top: Path, names: Sequence[bytes]) -> list[bytes | None] | None:
    """Return the files of these names, such as `HEAD:a/b`, each None where it is not there.

    None where nobody can say: without git, or for a name with a line end.
    """
    if any(b"\n" in name for name in names):
        return None
    answer = ask_git(top, ["cat-file", "--batch"], b"".join(name + b"\n" for name in names))
    if answer is None:
        return None
    found: list[bytes | None] = []
    for _ in names:  # `ID blob SIZE`, then the bytes and a line end; or a line that names none
        head, _, answer = answer.partition(b"\n")
        *_, kind, size = [b"", b"", *head.rsplit(b" ", 2)]
        found.append(answer[: int(size)] if kind == b"blob" and size.isdigit() else None)
        answer = answer[int(size) + 1 :] if size.isdigit() else answer
    return found
