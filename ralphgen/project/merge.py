"""What git is merging in the generated folder: both sides of it, and what was edited by hand."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralphgen.files import MANIFEST, digest, listed, listed_in
from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.project.root import FOLDER

FACTS_NAME = "project.json"
OURS, THEIRS = "ours", "theirs"
STAGES = {OURS: 2, THEIRS: 3}
# Who the other side is: of a merge, a rebase, a cherry-pick, a revert, and a stash that is applied.
# Of a squash, the message that git has made ready begins with it.
THEIR_COMMITS = ("MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD^", "refs/stash")
SQUASHED = re.compile(rb"^commit ([0-9a-f]{40,64})$", re.MULTILINE)
MARK = b"<<<<<<< "


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge that has left generated files unmerged.

    `problems` says, sorted, of each file that is not as it was generated on which side it was
    edited. `listed` are the files that either side has generated; `manifests` and `facts` are the
    texts of the `manifest.json` and `project.json` of both sides, as far as they have them.
    `marked` says where git's marks stand in what people write in `.ralph`, as `path:line`.
    """

    problems: tuple[str, ...]
    listed: frozenset[str]
    manifests: tuple[bytes, ...]
    facts: tuple[bytes, ...]
    marked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side: what its manifest lists, and the digests of the files as its commit has them."""

    name: str
    manifest: bytes
    facts: bytes | None
    listed: Mapping[str, str]
    digests: Mapping[str, str]


def read_merge(root: Path) -> Merge | None:
    """Return the merge that waits in the generated folder of the project in `root`, if one does.

    None without git, outside of a repository, and where no generated file is unmerged; files that
    were added with git's marks in them count as unmerged as long as the merge is not committed.
    """
    place = (root / FOLDER).resolve()
    top = work_tree_around(place)
    if top is None:
        return None
    repository = _Repository(top, place.relative_to(top).as_posix())
    unmerged = repository.unmerged()
    if not unmerged and listed(place) is not None:
        return None
    commits = repository.commits(unmerged)
    if not unmerged and THEIRS not in commits:
        return None
    sides = [side for name in commits if (side := repository.side(name, commits[name]))]
    problems = [
        f'"{MANIFEST}" cannot be read on side "{name}"'
        for name in STAGES
        if name not in {side.name for side in sides}
    ]
    for side in sides:
        problems += [
            f'"{path}" was edited by hand on side "{side.name}"'
            for path, found in side.digests.items()
            if found != side.listed[path]
        ]
    problems += _edited_since(place, repository, unmerged, sides)
    # Of a side whose commit nobody knows, what the index has: nothing of it may go unseen.
    unknown = [name for name in STAGES if name not in {side.name for side in sides}]
    staged = [repository.staged(name) for name in unknown]
    known = [(side.manifest, side.facts) for side in sides]
    manifests, facts = zip(*known, *staged, strict=True)
    return Merge(
        tuple(sorted(problems)),
        frozenset(path for side in sides for path in side.listed),
        tuple(text for text in manifests if text is not None),
        tuple(text for text in facts if text is not None),
        tuple(_marked(root, top)),
    )


def _marked(root: Path, top: Path) -> Iterator[str]:
    """Yield where git's marks stand in unmerged files of `.ralph` that are not generated."""
    own = (root / FOLDER).parent.resolve()
    for path in unmerged_in(top, own.relative_to(top).as_posix()):
        if (own / path).is_relative_to((root / FOLDER).resolve()):
            continue
        with suppress(OSError):
            for number, line in enumerate((own / path).read_bytes().splitlines(), start=1):
                if line.startswith(MARK):
                    yield f"{own.name}/{path}:{number}"


def unmerged_in(top: Path, folder: str) -> list[str]:
    """Return the files of a folder that git has left unmerged, by path below that folder."""
    wanted = ["ls-files", "-z", "--unmerged", "--", f":(literal){folder}"]
    entries = (ask_git(top, wanted) or b"").split(b"\0")
    names = {os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry}
    return sorted(name.removeprefix(f"{folder}/") for name in names)


def _edited_since(
    place: Path, repository: "_Repository", unmerged: Sequence[str], sides: Sequence[_Side]
) -> list[str]:
    """Return of each file on disk that it is neither side's, nor what git or ralphgen has made."""
    paths = sorted({path for side in sides for path in side.digests})
    staged = dict(zip(paths, repository.texts(":0:", paths), strict=True))
    written = listed(place) or {}
    found: list[str] = []
    for path in paths:
        accepted = {side.digests[path] for side in sides if path in side.digests}
        text = staged[path]
        if text is not None and len(accepted) > 1:  # put together by git
            accepted.add(digest(text))
        try:
            on_disk = (place / path).read_bytes()
        except OSError:  # gone, or refused by whoever writes
            continue
        marked = path in unmerged and any(line.startswith(MARK) for line in on_disk.splitlines())
        if not marked and digest(on_disk) not in {*accepted, written.get(path)}:
            found.append(f'"{path}" was edited by hand since the merge began')
    return found


@dataclass(frozen=True, slots=True)
class _Repository:
    """The repository whose work tree is `top`; `folder` is the generated one, relative to it."""

    top: Path
    folder: str

    def unmerged(self) -> list[str]:
        """Return the generated files that are unmerged, by path below the generated folder."""
        return unmerged_in(self.top, self.folder)

    def commits(self, unmerged: Sequence[str]) -> dict[str, str]:
        """Return, by side, the commit whose manifest is what the index has of that side."""
        found: dict[str, str] = {}
        squashed = self.squashed()
        certain = {"HEAD", "MERGE_HEAD", *squashed}
        for side, candidates in ((OURS, ["HEAD"]), (THEIRS, [*THEIR_COMMITS, *squashed])):
            (staged,) = self.texts(f":{STAGES[side]}:", [MANIFEST])
            for commit in candidates:
                (text,) = self.texts(f"{commit}:", [MANIFEST])
                is_certain = MANIFEST not in unmerged and commit in certain
                if text is not None and (is_certain or text == staged):
                    found.setdefault(side, commit)
        return found

    def squashed(self) -> list[str]:
        """Return the commit that `git merge --squash` has merged, if it waits to be committed."""
        named = ask_git(self.top, ["rev-parse", "--git-path", "SQUASH_MSG"]) or b""
        try:
            text = (self.top / os.fsdecode(named.rstrip(b"\n"))).read_bytes()
        except OSError:
            return []
        found = SQUASHED.search(text)
        return [found[1].decode("ascii")] if found else []

    def staged(self, name: str) -> tuple[bytes | None, bytes | None]:
        """Return manifest and facts as the index has them of a side, or put together by git."""
        paths = [MANIFEST, FACTS_NAME]
        sides = self.texts(f":{STAGES[name]}:", paths)
        merged = self.texts(":0:", paths)
        manifest, facts = (one or other for one, other in zip(sides, merged, strict=True))
        return manifest, facts

    def side(self, name: str, commit: str) -> _Side | None:
        """Return what a commit has of the generated folder; None without a whole manifest."""
        manifest, facts = self.texts(f"{commit}:", [MANIFEST, FACTS_NAME])
        known = None if manifest is None else listed_in(manifest)
        if manifest is None or known is None:
            return None
        texts = zip(known, self.texts(f"{commit}:", [*known]), strict=True)
        digests = {path: digest(text) for path, text in texts if text is not None}
        return _Side(name, manifest, facts, known, digests)

    def texts(self, revision: str, paths: Sequence[str]) -> list[bytes | None]:
        """Return files as a revision such as `HEAD:` has them, None for those that it has not."""
        names = [os.fsencode(f"{revision}{self.folder}/{path}") for path in paths]
        return read_files_of_git(self.top, names) or [None] * len(names)
