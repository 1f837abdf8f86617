"""Delegates trust to the keys that sign the commits of a branch.

The record is the user's, outside of the project: the signers file in git's format, the branch, its
commit at that time (the anchor) and the newest commit that was verified since. Nothing that a
writer of the repository controls takes part in verification, except the commits.
"""

import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralphgen.errors import ProjectError, UsageError, plain
from ralphgen.project.approvals import approvals_place
from ralphgen.project.git import ask_git
from ralphgen.runtime.files import replace_file
from ralphgen.runtime.files.git import run_git
from ralphgen.runtime.files.main_tree import Repository, home_top, repository_of
from ralphgen.runtime.verification import is_private

ENDING = ".signers.json"  # of the record, next to that of approvals
KEYGEN = "ssh-keygen"
# They come before the folders of `PATH`, which may name one that an agent can write.
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin")
GOOD = "G"  # git's status of a good signature by a listed key
LONGEST_SIGNERS = 1_000_000  # bytes
SECONDS = 300  # for all new commits together; each needs two runs of ssh-keygen
SHA1_LENGTH = 40
FOLDER_MODE, FILE_MODES = b"40000", (b"100644", b"100755")  # of entries in a tree
REMOTES, HEADS = "refs/remotes/", "refs/heads/"


@dataclass(frozen=True, slots=True)
class Delegation:
    """The text of a signers file, the full name of a branch, and two commits of it.

    `is_signed` is true if the anchor has a good signature itself: otherwise only later commits
    count.
    """

    signers: str
    branch: str
    anchor: str
    newest: str
    is_signed: bool


def new_delegation(root: Path, signers: Path, branch: str) -> Delegation:
    """Return a delegation to the keys in a file, from the current commit of a branch on.

    Raises `UsageError` for a file without keys, and for a name that is not a branch.
    """
    try:
        data = signers.read_bytes() if signers.is_file() else b""
        text = data.decode() if len(data) <= LONGEST_SIGNERS else ""
    except (OSError, ValueError) as error:
        raise UsageError(f'"{plain(str(signers))}" cannot be read: {error}') from error
    if not signer_lines(text):
        hint = 'one signer a line, such as: me@example.org namespaces="git" ssh-ed25519 AAAA…'
        raise UsageError(f'no signers in "{plain(str(signers))}"', hint)
    tree = repository_of(str(root))
    if tree is None:
        raise UsageError(f'"{root}" is not in a git repository', 'run "git init"')
    found = _branch(tree, branch)
    if found is None:
        raise UsageError(f'no branch "{plain(branch)}"', 'list them with "git branch --all"')
    name, tip = found
    status = _log(tree, text, [tip, "--max-count=1"])
    is_signed = bool(status) and status[0][1] == GOOD
    return Delegation(text, name, tip, tip, is_signed)


def signer_lines(signers: str) -> list[str]:
    """Return the lines of a signers file that name keys."""
    lines = (line.strip() for line in signers.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_delegation(root: Path) -> Delegation | None:
    """Return the delegation of the project in `root`, None if there is no reliable record of one.

    A file that others may write, or that cannot be read, does not count.
    """
    path = _place(root)
    try:
        if not path.is_absolute():
            return None
        if not (is_private(path.parent.lstat()) and is_private(path.lstat())):
            return None
        return Delegation(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def keep_delegation(root: Path, delegation: Delegation) -> None:
    """Record a delegation next to the approvals; raise `OSError` if that fails."""
    path = _place(root)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps(asdict(delegation), indent=2) + "\n"
    replace_file(str(path), text.encode(), mode=0o600)


def forget_delegation(root: Path) -> bool:
    """Remove the delegation; return whether there was one. Raises `ProjectError` if that fails."""
    path = _place(root)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ProjectError(f'"{path}" cannot be removed: {error}') from error
    return True


def _place(root: Path) -> Path:
    return Path(approvals_place(root)[1]).with_suffix(ENDING)


def verified_commits(root: Path) -> list[str]:
    """Return the verified commits of the delegated branch, newest first.

    Empty without a delegation, and unless each commit of the branch since the newest verified one
    has a good signature. The branch must contain that one in its line of first parents: otherwise
    its history was rewritten, cut off or moved backwards.
    """
    known, tree = read_delegation(root), repository_of(str(root))
    if known is None or tree is None:
        return []
    found = _branch(tree, known.branch)
    if found is None:
        return []
    _, tip = found
    if tip != known.newest:
        new = _log(tree, known.signers, [tip, f"^{known.newest}"])
        line = [*(commit for commit, _, _ in new), known.newest]
        follows = [parent for _, _, parent in new] == line[1:]
        is_good = all(status == GOOD for _, status, _ in new)
        if not (new and follows and is_good and len(_objects(Path(tree.top), line)) == len(line)):
            return []
        try:
            keep_delegation(root, replace(known, newest=tip))
        except OSError:  # a branch that moves backwards would not be noticed
            return []
    walk = ["--no-replace-objects", "rev-list", "--first-parent", tip, f"^{known.anchor}"]
    listed = ask_git(Path(tree.top), walk)
    if listed is None:
        return []
    return [*listed.decode("ascii").split(), *([known.anchor] if known.is_signed else [])]


def texts_at(root: Path, files: Iterable[str], commits: Sequence[str]) -> dict[str, list[bytes]]:
    """Return the versions of files in some commits, by the files' names.

    A file is named from the project's folder, or by an absolute path. One outside of the repository
    has none, and neither has a link. Objects that do not have the content of their names are
    missing: git does not compare them when it reads them.
    """
    tree = repository_of(str(root))
    if tree is None or not commits:
        return {}
    top = Path(tree.top)
    inside = {file: path for file in files if (path := _path_in(tree, root, file))}
    found: dict[str, list[bytes]] = {}
    for part in (commits[:1], commits[1:]):  # most files are as in the newest commit
        first = (data.partition(b"\n")[0] for data in _objects(top, part).values())
        trees = {line.removeprefix(b"tree ").decode("ascii") for line in first}
        ways = {
            (one, tuple(path.split("/")), file) for file, path in inside.items() for one in trees
        }
        for file, text in _walk(top, ways):
            if text not in found.setdefault(file, []):
                found[file].append(text)
    return found


def resolve_commit(root: Path, reference: str) -> str:
    """Return the commit of a reference; raise `UsageError` if there is none."""
    tree = repository_of(str(root))
    found = None if tree is None else _commit(tree, reference)
    if found is None:
        hint = 'check the name; in a shallow clone, run "git fetch --unshallow"'
        raise UsageError(f'no commit "{plain(reference)}"', hint)
    return found


def _path_in(tree: Repository, root: Path, file: str) -> str:
    """Return the path of a file from the top of its work tree, empty outside of the repository."""
    place = os.path.normpath(root / file)
    around = repository_of(str(Path(place).parent))
    if around is None or around.common != tree.common or "\n" in place:
        return ""
    path = os.path.relpath(place, around.top).replace(os.sep, "/")
    return "" if path.startswith("../") else path


def _walk(top: Path, ways: set[tuple[str, tuple[str, ...], str]]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of files, given tree, path in parts, and name of each."""
    left = ways
    files: set[tuple[str, str]] = set()
    while left:
        entries = {
            one: _entries_of(data, len(one) // 2)
            for one, data in _objects(top, {one for one, _, _ in left}).items()
        }
        deeper = set()
        for tree, (name, *rest), file in left:
            mode, inner = entries.get(tree, {}).get(os.fsencode(name), (b"", ""))
            if rest and mode == FOLDER_MODE:
                deeper.add((inner, tuple(rest), file))
            elif not rest and mode in FILE_MODES:
                files.add((inner, file))
        left = deeper
    texts = _objects(top, {one for one, _ in files})
    yield from ((file, texts[one]) for one, file in sorted(files) if one in texts)


def _entries_of(data: bytes, size: int) -> dict[bytes, tuple[bytes, str]]:
    """Return the entries of a tree, as mode and object by name."""
    found = {}
    while data:
        head, _, data = data.partition(b"\0")
        mode, _, name = head.partition(b" ")
        found[name] = (mode, data[:size].hex())
        data = data[size:]
    return found


def _objects(top: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of objects by name, without those whose content has another name."""
    wanted = sorted({*names})
    given = "".join(f"{name}\n" for name in wanted).encode("ascii")
    answer = ask_git(top, ["--no-replace-objects", "cat-file", "--batch"], given) if given else None
    found, rest = {}, answer or b""
    for name in wanted if rest else ():
        head, _, rest = rest.partition(b"\n")
        _, kind, *size = head.split(b" ")
        if not size:  # a missing object
            continue
        data, rest = rest[: int(size[0])], rest[int(size[0]) + 1 :]
        algorithm = "sha1" if len(name) == SHA1_LENGTH else "sha256"
        made = hashlib.new(algorithm, b"%s %d\0" % (kind, len(data)), usedforsecurity=False)
        made.update(data)
        if made.hexdigest() == name:
            found[name] = data
    return found


def _branch(tree: Repository, name: str) -> tuple[str, str] | None:
    """Return the full name and the commit of a branch, of a remote or of the repository."""
    full = [name] if name.startswith((REMOTES, HEADS)) else [f"{REMOTES}{name}", f"{HEADS}{name}"]
    for one in full:
        is_name = ask_git(Path(tree.top), ["check-ref-format", one]) is not None
        if is_name and (commit := _commit(tree, one)):
            return one, commit
    return None


def _commit(tree: Repository, reference: str) -> str | None:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    answer = ask_git(Path(tree.top), words)
    return None if answer is None else answer.decode("ascii").strip()


def _log(tree: Repository, signers: str, walk: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return commit, status of the signature and first parent of commits; empty if git fails.

    Every program that a signature can start is set here: ssh-keygen by its path, and none for
    signatures of other kinds.
    """
    keygen = _keygen(tree)
    if not keygen:
        return []
    with tempfile.TemporaryDirectory(prefix="ralphgen-signers-") as folder:
        copy = Path(folder, "signers")
        copy.write_text(signers, encoding="utf-8")
        settings = {
            "gpg.format": "ssh",
            "gpg.ssh.program": keygen,
            "gpg.ssh.allowedSignersFile": str(copy),
            "gpg.program": os.devnull,
            "gpg.openpgp.program": os.devnull,
            "gpg.x509.program": os.devnull,
        }
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        log = ["log", "--first-parent", "--no-decorate", "--no-color", "--format=%H %G? %P"]
        with suppress(OSError):
            done = run_git(tree, ["--no-replace-objects", *words, *log, *walk], seconds=SECONDS)
            if done.code == 0:
                return [*_entries(done.output.decode("ascii"))]
    return []


def _entries(output: str) -> Iterator[tuple[str, str, str]]:
    for line in output.splitlines():
        commit, status, *parents = line.split(" ")
        yield commit, status, (parents or [""])[0]


def _keygen(tree: Repository) -> str:
    """Return the path of ssh-keygen, empty if none is outside of the project and safe."""
    others = os.environ.get("PATH", "").split(os.pathsep)
    folders = [*SYSTEM_FOLDERS, *(one for one in others if Path(one).is_absolute())]
    own = [Path(os.path.realpath(one)) for one in (tree.top, tree.common, home_top(tree))]
    for folder in folders:
        found = shutil.which(KEYGEN, path=folder)
        if found is None:
            continue
        real = Path(os.path.realpath(found))
        about = real.stat()
        is_safe = sys.platform == "win32" or (
            about.st_uid in (0, os.geteuid()) and not stat.S_IMODE(about.st_mode) & 0o022
        )
        if is_safe and not any(real.is_relative_to(one) for one in own):
            return str(real)
    return ""
