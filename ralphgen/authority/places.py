"""Where emitted servers are read: in a commit, by asking git for its files, and on the disk."""

from pathlib import Path

from ralphgen.authority import NOTHING, Authority
from ralphgen.authority.emitted import FACTS, POLICY, read_authority
from ralphgen.errors import ProjectError, UsageError
from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.project.root import FOLDER


def committed_authority(root: Path, reference: str) -> Authority:
    """Return what the server of the project in `root` let sessions do as a commit has it.

    `NOTHING` where the commit has no server. Raises `UsageError` where there is no such commit,
    `ProjectError` outside of a repository and for files that are not as the generator writes them.
    """
    place = (root / FOLDER).resolve()
    top = work_tree_around(place)
    if top is None:
        raise ProjectError(f'"{root}" is not in a git repository', 'run "git init" in it')
    wanted = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"]
    answer = ask_git(top, wanted)
    if answer is None:
        if not ask_git(top, ["rev-list", "--all", "--max-count=1"]):
            text = f'no commit "{reference}": the repository "{top}" has no commits'
            raise UsageError(text, "git add .ralph && git commit -m 'Add the generated server'")
        hint = 'check the name; in a shallow clone, run "git fetch" first'
        raise UsageError(f'no commit "{reference}" in the repository', hint)
    commit = answer.decode("ascii").strip()
    folder = place.relative_to(top).as_posix()
    listing = ask_git(top, ["ls-tree", "-r", "-z", "--name-only", commit, "--", f"{folder}/"])
    facts = f"{folder}/{FACTS}".encode()
    listed = (listing or b"").split(b"\0")
    names = [name for name in listed if name.endswith(b".py") or name == facts]
    read = read_files_of_git(top, [commit.encode() + b":" + name for name in names])
    if listing is None or read is None:
        raise ProjectError(
            f'git cannot read the files of "{reference}"', 'run "git fsck" for details'
        )
    prefix = f"{folder}/".encode()
    files = {
        _text(name.removeprefix(prefix)): _text(data)
        for name, data in zip(names, read, strict=True)
        if data is not None and name.removeprefix(prefix).count(b"/") <= 1
    }
    return read_authority(files, f'"{reference}"') if POLICY in files else NOTHING


def present_authority(root: Path) -> Authority:
    """Return what the server on the disk lets sessions do; `ProjectError` where there is none."""
    folder = root / FOLDER
    try:
        paths = [*folder.glob("*.py"), *folder.glob("*/*.py"), *folder.glob(FACTS)]
        files = {path.relative_to(folder).as_posix(): _text(path.read_bytes()) for path in paths}
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'"{error.filename}" cannot be read: {reason}') from error
    if POLICY not in files:
        raise ProjectError(f'there is no server in "{root}"', 'run "ralphgen regen"')
    return read_authority(files, "the worktree")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
