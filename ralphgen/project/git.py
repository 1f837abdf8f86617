"""Asks git what commits and the index hold; nothing of a repository's settings is run."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from ralphgen.runtime.files.work_tree import SETTINGS

PLACES = ("GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE")
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

    Where there are more, git is ended.
    """
    return _begin(top, [*_opened(top), *arguments], {}, most)


def begin_of_diff(top: Path, arguments: Sequence[str], most: int) -> bytes | None:
    """Return the first bytes of how files differ, as `begin_of_git` does.

    Git sees the objects, the index and the files, but none of the repository's settings, not even
    those that are written meanwhile: they could name programs as filters of files. It sees no names
    of commits either.
    """
    asked = ["rev-parse", "--path-format=absolute", "--show-object-format"]
    asked += ["--git-path", "objects", "--git-path", "index"]
    found = (ask_git(top, asked) or b"").decode(errors="surrogateescape").split("\n")
    if len(found) != len([*PLACES, "form", ""]):
        return None
    with TemporaryDirectory() as own:
        _make_repository(Path(own), found[0])
        places = dict(zip(PLACES, found[1:], strict=False))
        return _begin(top, [*_opened(top, own), *arguments], places, most)


def _begin(
    top: Path, words: Sequence[str], variables: Mapping[str, str], most: int
) -> bytes | None:
    program = which("git")
    if program is None:
        return None
    try:
        process = subprocess.Popen(
            [program, *words],
            cwd=top,
            env={**_environment(), **variables},
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


def _make_repository(folder: Path, form: str) -> None:
    """Write what makes a folder a repository for git, of objects of this format."""
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    settings = f"[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = {form}\n"
    (folder / "config").write_text(settings, encoding="ascii")


def _opened(top: Path, repository: str = "") -> list[str]:
    settled = [word for one in SETTINGS for word in ("-c", one)]
    return [*settled, "--git-dir", repository or str(top / ".git"), "--work-tree", str(top)]


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
