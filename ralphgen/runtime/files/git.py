"""Runs git on one repository, with settings that no file in a work tree can choose.

Settings of git name programs. git takes them from the `config` of the repository's common
directory, and hooks from the same directory. Each run here gets another common directory: a
temporary one with links to the real objects and refs, a `config` of ours, and no hooks. `--git-dir`
is the directory that the main repository has on record, so the `.git` of a work tree has no effect
either.
"""

from __future__ import annotations

import os
import re

from . import read_file
from .main_tree import LARGEST, home_top

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .main_tree import Repository

    Settings = Sequence[tuple[str, str]]

# These are the user's own settings too, which would start a program in the tree or read one.
ALWAYS = (
    "advice.addEmbeddedRepo=false",
    "advice.detachedHead=false",
    "advice.graftFileDeprecated=false",
    "core.commitGraph=false",  # a writer of the repository could name other trees in it
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.untrackedCache=false",
    "diff.ignoreSubmodules=all",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "log.showSignature=false",
    "maintenance.auto=false",
    "merge.autoStash=false",
    "merge.verifySignatures=false",
    "push.recurseSubmodules=no",
    "submodule.recurse=false",
)
# Without the user's settings, nothing is fetched and no setting outside of ours is read.
ALONE = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
# The parts of the real common directory that the temporary one has.
SHARED = (
    *("HEAD", "info", "logs", "objects", "packed-refs", "refs", "reftable", "shallow"),
    "worktrees",
)
CREATED = ("packed-refs", "shallow")  # git may create these: they are linked though missing
ATTRIBUTES = "info/attributes"  # among settings, the lines of this file of the repository
SECONDS = 60
# These commands only read and write objects, refs and the index, so they start no filter or merge
# driver. `run_git` need not list the user's own, which would start a second git each time.
WITHOUT_FILES = frozenset(
    {
        *("cat-file", "check-ref-format", "commit-tree", "config", "diff-tree", "for-each-ref"),
        *("ls-files", "ls-tree", "merge-base", "mktree", "rev-list", "rev-parse", "symbolic-ref"),
        *("update-ref", "var", "write-tree"),
    }
)
# These commands enter submodules, unless an option forbids it: `.gitmodules` has priority over
# `diff.ignoreSubmodules`. An agent can write both, and filters for git to start in a submodule.
ENTERING = ("diff", "diff-files", "status")
FILE_OPTIONS = frozenset({"-m", "--modified", "--filters", "--textconv"})  # each starts a filter
_FORMAT = rb"(?im)^\s*(objectformat|refstorage)\s*=\s*\"?(\w+)"
_FILTER = re.compile(r"filter\..*\.(?:clean|smudge|process)", re.DOTALL)
_DRIVER = re.compile(r"merge\..*\.driver", re.DOTALL)
_OPERAND = re.compile(r"([\"']?)%([OAB])\1")


class GitResult:
    """The exit code of git, None if it was stopped, and its output."""

    __slots__ = ("code", "errors", "output")

    def __init__(self, code: int | None, output: bytes, errors: bytes) -> None:
        self.code = code
        self.output = output
        self.errors = errors


def run_git(
    repository: Repository,
    words: Sequence[str],
    *,
    settings: Settings | None = None,
    given: bytes = b"",
    folder: str = "",
    hidden: Sequence[str] = (),
    index: str = "",
    most: int | None = None,
    seconds: float = SECONDS,
    variables: Mapping[str, str] | None = None,
) -> GitResult:
    """Run git on a repository to its end; raise `OSError` if it cannot be started.

    Without `settings`, git only reads: no setting of the user or the repository counts. With them,
    the user's settings count too, and only the repository's attributes in `settings`. Filters and
    merge drivers start outside of the work tree, so none takes its code from there. git starts in
    `folder`, which is a temporary one if empty, and changes to the top of the tree by itself if the
    command needs files. `hidden` are files of the repository that git does not see, and `index`
    takes the place of its index. git is stopped after `most` bytes, and after `seconds`.
    `variables` is the environment, by default that of this process.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ralphgen-git-") as common:
        _make_common(common, repository.common, hidden, pinned=settings is not None)
        passed = os.environ if variables is None else variables
        environment = _environment(repository, common, passed)
        if settings is None:
            environment |= ALONE
        else:
            users = b""
            if _may_convert(words):
                users = _run(["config", "--list", "-z"], environment, common).output
            _append(common, "config", _settled(users, settings))
            for key, value in settings:
                if key == ATTRIBUTES:
                    with open(os.path.join(common, key), "wb") as file:
                        file.write(os.fsencode(value))
        if "index" in hidden:
            environment["GIT_INDEX_FILE"] = os.path.join(common, "index")
        if index:
            environment["GIT_INDEX_FILE"] = index
        return _run(words, environment, folder or common, given, most, seconds)


def is_there() -> bool:
    """Return whether there is a git to run."""
    return _program() is not None


def parse_settings(output: bytes) -> list[tuple[str, str]]:
    """Return the settings that `git config --list -z` prints; one without a value is true."""
    entries = [os.fsdecode(entry).partition("\n") for entry in output.split(b"\0") if entry]
    return [(key, value if end else "true") for key, end, value in entries]


def _may_convert(words: Sequence[str]) -> bool:
    """Return whether a command may start a filter or a merge driver of the user."""
    command = words[_command_at(words)]  # git ignores an alias for one of its commands
    return command not in WITHOUT_FILES or not FILE_OPTIONS.isdisjoint(words)


def _command_at(words: Sequence[str]) -> int:
    """Return the index of the command behind the options of git itself."""
    at = 0
    while words[at].startswith("-"):
        at += 2 if words[at] == "-c" else 1
    return at


def _program() -> str | None:
    from shutil import which

    return which("git", path=_path(os.environ))


def _path(variables: Mapping[str, str]) -> str:
    """Return `PATH` without relative folders, which would be folders of the work tree."""
    folders = variables.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if os.path.isabs(folder))


def _run(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    given: bytes = b"",
    most: int | None = None,
    seconds: float = SECONDS,
) -> GitResult:
    import signal
    import subprocess

    program = _program()
    if program is None:
        raise FileNotFoundError("git is not installed")
    at = _command_at(words)
    stays = ("--ignore-submodules=all",) if words[at] in ENTERING else ()
    always = (word for one in ALWAYS for word in ("-c", one))
    process = subprocess.Popen(
        [program, *always, *words[: at + 1], *stays, *words[at + 1 :]],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if most is None else subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        if most is not None and process.stdout is not None:
            output = process.stdout.read(most)
            if len(output) == most:
                process.kill()
                return GitResult(None, output, b"")
            return GitResult(process.wait(), output, b"")
        try:
            output, errors = process.communicate(given or None, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return GitResult(None, b"", b"")
        return GitResult(process.returncode, output, errors)


def _environment(
    repository: Repository, common: str, variables: Mapping[str, str]
) -> dict[str, str]:
    names = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    identity = {name: variables[name] for name in names if name in variables}
    others = {name: text for name, text in variables.items() if not name.startswith("GIT_")}
    return {
        **others,
        **identity,
        "PATH": _path(variables),
        "GIT_DIR": repository.git_dir,
        "GIT_COMMON_DIR": common,
        "GIT_WORK_TREE": repository.top,
        "RALPHGEN_MAIN": home_top(repository),
        "RALPHGEN_TREE": repository.top,
        "GIT_ASKPASS": "true",
        "GIT_EDITOR": "true",
        # Grafts and replaced objects would show other content than the commits have.
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "SSH_ASKPASS": "true",
    }


def _make_common(folder: str, common: str, hidden: Sequence[str], *, pinned: bool) -> None:
    """Write a common directory: the data of `common`, and of its config the format alone.

    With `pinned`, its attributes are left out.
    """
    if pinned:
        os.mkdir(os.path.join(folder, "info"))
        os.symlink(os.path.join(common, "info/exclude"), os.path.join(folder, "info/exclude"))
    for name in SHARED:
        if pinned and name == "info":
            continue
        real = os.path.join(common, name)
        if name not in hidden and (name in CREATED or os.path.lexists(real)):
            os.symlink(real, os.path.join(folder, name))
    try:
        data, _ = read_file(os.path.join(common, "config"), LARGEST)
    except OSError:
        data = b""
    formats = re.findall(_FORMAT, data)
    extensions = [(f"extensions.{os.fsdecode(key)}", os.fsdecode(value)) for key, value in formats]
    _append(folder, "config", [("core.repositoryFormatVersion", "1"), *extensions])


def _append(folder: str, name: str, settings: Iterable[tuple[str, str]]) -> None:
    with open(os.path.join(folder, name), "a", encoding="utf-8", errors="surrogateescape") as file:
        for key, value in settings:
            file.writelines(_lines(key, value))


def _lines(key: str, value: str) -> Iterator[str]:
    """Yield the lines of a config that hold one setting."""
    section, _, rest = key.partition(".")
    middle, _, name = rest.rpartition(".")
    yield f"[{section} {_quoted(middle)}]\n" if middle else f"[{section}]\n"
    yield f"\t{name} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _settled(users: bytes, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings of the repository, and the filters and drivers, each with its folder.

    The user's programs start in a folder without any file of the project. The repository's settings
    may name programs relative to its main work tree.
    """
    for key, value in parse_settings(users):
        if _FILTER.fullmatch(key) or _DRIVER.fullmatch(key):
            yield key, _started_in("GIT_COMMON_DIR", key, value)
    for key, value in settings:
        if key == ATTRIBUTES:
            continue
        is_command = _FILTER.fullmatch(key) or _DRIVER.fullmatch(key)
        yield key, _started_in("RALPHGEN_MAIN", key, value) if is_command else value


def _started_in(variable: str, key: str, command: str) -> str:
    """Return the command of a filter or driver so that it starts in the folder of a variable.

    git passes on `.` as the work tree, and to a driver the names of three files relative to it.
    """
    if not command:
        return command
    if _DRIVER.fullmatch(key):
        command = _OPERAND.sub(r'"$GIT_WORK_TREE/%\2"', command)
    return f'export GIT_WORK_TREE="$RALPHGEN_TREE"; cd "${variable}" && {{ {command}\n}}'
