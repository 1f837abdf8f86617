"""Asks git about a project: its files, its objects, and a merge of the generated folder."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import UntrustedError
from ralphgen.files import MANIFEST, digest, manifest_entries, parse_manifest
from ralphgen.project.approvals import read_record
from ralphgen.project.root import FOLDER
from ralphgen.runtime.files import read_file
from ralphgen.runtime.files.git import ATTRIBUTES, GitResult, parse_settings, run_git
from ralphgen.runtime.files.main_tree import LARGEST, PROJECT, repository_of, tree_top

_LISTED: dict[bytes, tuple[tuple[str, str], ...]] = {}  # by the content of a config


def work_tree_around(place: Path) -> Path | None:
    """Return the top of the work tree around a resolved path, or None.

    A `.git` without a repository counts too: it is then unknown which files are committed.
    """
    tree = repository_of(str(place.parent))
    top = tree_top(str(place.parent)) if tree is None else tree.top
    return None if top is None else Path(top)


def ask_git(top: Path, arguments: Sequence[str], asked: bytes = b"") -> bytes | None:
    """Return the answer of git to `asked` in the work tree `top`; None without git or an answer."""
    done = _read(top, arguments, asked)
    return None if done is None or done.code else done.output


def branch_in(folder: Path) -> str:
    """Return the branch that is checked out around a folder, empty if none is."""
    found = ask_git(folder, ["symbolic-ref", "--quiet", "--short", "HEAD"]) or b""
    return os.fsdecode(found).rstrip("\n")


def begin_of_git(top: Path, arguments: Sequence[str], most: int) -> bytes | None:
    """Return the first bytes of the answer of git, as `ask_git` does.

    The user's own settings count here, such as ignored files and filters.
    """
    tree = repository_of(str(top))
    try:
        done = None if tree is None else run_git(tree, arguments, settings=(), most=most)
    except OSError:
        return None
    return None if done is None or done.code else done.output


def settings_of(top: Path) -> list[tuple[str, str]]:
    """Return the settings in the config of the repository of a work tree, and in its includes.

    Its file of attributes is one of them. None of them counts in any run of git by this.
    """
    tree = repository_of(str(top))
    if tree is None:
        return []
    found = [*_config_settings(top, Path(tree.common, "config"))]
    with suppress(OSError):
        lines, _ = read_file(str(Path(tree.common, ATTRIBUTES)), LARGEST)
        found += [(ATTRIBUTES, os.fsdecode(lines))] if lines.strip() else []
    return found


def _config_settings(top: Path, file: Path) -> Sequence[tuple[str, str]]:
    """Return the settings in a config; the same content without includes is listed once."""
    words = ["config", "--includes", "--list", "-z", "--file"]
    try:
        content, _ = read_file(str(file), LARGEST)
    except OSError:
        content = b""
    if not content or len(content) >= LARGEST or b"include" in content.lower():
        done = _read(top, [*words, str(file)])
        return () if done is None or done.code else parse_settings(done.output)
    found = _LISTED.get(content)
    if found is None:
        done = _read(top, [*words, "-"], content)
        if done is None or done.code:
            return ()
        found = tuple(parse_settings(done.output))
        _LISTED.clear()  # a loop asks for one repository again and again
        _LISTED[content] = found
    return found


def _read(top: Path, arguments: Sequence[str], asked: bytes = b"") -> GitResult | None:
    tree = repository_of(str(top))
    try:
        done = None if tree is None else run_git(tree, arguments, given=asked)
    except OSError:
        return None
    return None if done is None or done.code is None else done


def read_files_of_git(top: Path, names: Sequence[bytes]) -> list[bytes | None] | None:
    """Return the contents of git's files by name, such as `HEAD:a/b`, each None if it is missing.

    Returns None if git is not installed, or if a name contains a line end.
    """
    if any(b"\n" in name for name in names):
        return None
    answer = ask_git(top, ["cat-file", "--batch"], b"".join(name + b"\n" for name in names))
    if answer is None:
        return None
    found: list[bytes | None] = []
    at = 0
    for _ in names:  # `ID blob SIZE`, then the bytes and a line end; or a line that names none
        end = answer.find(b"\n", at)
        *_, kind, size = [b"", b"", *answer[at : end if end >= 0 else None].rsplit(b" ", 2)]
        at = end + 1 if end >= 0 else len(answer)
        length = int(size) if size.isdigit() else None
        found.append(answer[at : at + length] if kind == b"blob" and length is not None else None)
        at += 0 if length is None else length + 1
    return found


CONVERTING = ("ident", "working-tree-encoding", "filter")  # attributes that change a file
HASHES = ("sha1", "sha256")  # algorithms for object names
# Traces of a merge, a pick or a fetch besides refs.
HALF_DONE = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "FETCH_HEAD")
_GLOB_SPECIAL, _GLOB_ESCAPED = re.compile(r"([\\*?\[\]])"), r"\\\1"  # in a glob of git
_OBJECT = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")


_KEYWORD = re.compile(rb"\$Id:[^$\n]*\$")  # as git writes it for the attribute "ident"


def has_objects_of(path: Path, content: bytes) -> bool:
    """Return whether git may have brought the content of a file, or cannot tell.

    Content that a merge, a pick, a stash, a restore or an unpacked index brings is a git object; a
    file that the user edits becomes one when it is staged. Line ends and `$Id$` may differ from
    every known version. A file that git converts otherwise counts as brought.
    """
    top = _top(path)
    if top is None:
        return False
    if top == Path() or _is_converted(top, path):
        return True
    plain = without_conversions(content)
    if _has_blob(top, {content, plain}):
        return True
    texts = recorded_texts(path) if plain != content else []
    return texts is None or any(without_conversions(text) == plain for text in texts)


def without_conversions(content: bytes) -> bytes:
    """Return content with plain line ends, and without the words that "ident" adds."""
    return _KEYWORD.sub(b"$Id$", content.replace(b"\r\n", b"\n"))


def _has_blob(top: Path, texts: Iterable[bytes]) -> bool:
    """Return whether the repository has an object of one of the texts, or cannot tell."""
    names = [object_name(text, algorithm) for text in texts for algorithm in HASHES]
    answer = ask_git(top, ["cat-file", "--batch-check"], b"".join(name + b"\n" for name in names))
    if answer is None:
        return True
    return any(line.split(b" ")[1:2] == [b"blob"] for line in answer.splitlines())


def staged_texts(path: Path) -> list[bytes] | None:
    """Return a file as the index has it, all sides of a merge; None if git cannot tell."""

    def find(top: Path, inside: str) -> list[bytes] | None:
        answer = ask_git(top, ["ls-files", "-z", "--stage", "--", f":(literal){inside}"])
        if answer is None:
            return None
        return [entry.split(b" ")[1] for entry in answer.split(b"\0") if entry]

    texts = _texts_of(path, find)
    return None if texts is None or None in texts else [text for text in texts if text is not None]


def recorded_texts(path: Path) -> list[bytes] | None:
    """Return every version of a file that a ref, a reflog or an unfinished merge leads to.

    The project may be in another folder there. Empty outside of a repository; None if git cannot
    tell.
    """

    def find(top: Path, inside: str) -> list[bytes] | None:
        walk = ["log", "--ignore-missing", "--all", "--reflog", *HALF_DONE, "--full-history", "-m"]
        shown = ["--root", "--raw", "--no-abbrev", "--format=", "--no-renames"]
        _, below, rest = f"/{inside}".partition(f"/{PROJECT}/")
        anywhere = f":(glob)**/{PROJECT}/{_GLOB_SPECIAL.sub(_GLOB_ESCAPED, rest)}"
        names = [f":(literal){inside}", *([anywhere] if below else [])]
        answer = ask_git(top, [*walk, *shown, "--", *names])
        if answer is None:
            return None
        return [*dict.fromkeys(_OBJECT.findall(answer)), b"HEAD:" + os.fsencode(inside)]

    texts = _texts_of(path, find)
    return None if texts is None else [text for text in texts if text is not None]


def committed_texts(path: Path) -> tuple[bytes, ...] | None:
    """Return the file as `HEAD` has it; empty if it does not, None if git cannot tell."""
    texts = _texts_of(path, lambda _, inside: [b"HEAD:" + os.fsencode(inside)])
    return None if texts is None else tuple(text for text in texts if text is not None)


def _texts_of(
    path: Path, find: Callable[[Path, str], list[bytes] | None]
) -> list[bytes | None] | None:
    """Return the content of the objects that `find` names for a file of a work tree.

    `find` receives the top of the tree and the path in it. Empty outside of a repository; None if
    git cannot tell.
    """
    top = _top(path)
    if top is None:
        return []
    if top == Path():
        return None
    objects = find(top, os.fspath(path.resolve().relative_to(top)))
    return None if objects is None else read_files_of_git(top, objects)


def has_outward_link(root: Path, path: Path) -> bool:
    """Return whether git has a link on the way to a file that leads out of the project in `root`.

    A link to another place in its own work tree does not count.
    """
    real = Path(os.path.realpath(path))
    home = Path(os.path.realpath(root))
    for link in () if real.is_relative_to(home) else (path, *path.parents):
        if link.is_symlink():
            place = link.parent / ".git"
            top = _top(place)
            is_inner = top is not None and real.is_relative_to(top) and not home.is_relative_to(top)
            target = os.fsencode(link.readlink())
            if not is_inner and top is not None and (top == Path() or _has_blob(top, [target])):
                return True
    return False


def refuse_foreign_link(root: Path, place: Path) -> None:
    """Raise `UntrustedError` for a place in the project that a link leads out of it.

    A link that git does not have is the user's own, in a folder that was accepted.
    """
    real, home = Path(os.path.realpath(place)), Path(os.path.realpath(root))
    named = Path(os.path.normpath(Path.cwd() / place))
    is_inside = real.is_relative_to(home) or not named.is_relative_to(root)
    if is_inside or (read_record(root).is_of_folder and not has_outward_link(root, place)):
        return
    raise UntrustedError(f'"{place}" leads out of the project, to "{real}"', "remove the link")


def has_loose_link(path: Path) -> bool:
    """Return whether git has a link on the way to a file, and does not track the file itself."""
    for link in (path, *path.parents):
        top = _top(link.parent / ".git") if link.is_symlink() else None
        if top is not None and (top == Path() or _has_blob(top, [os.fsencode(link.readlink())])):
            return top != _top(path) or not staged_texts(path)
    return False


def in_repository(root: Path) -> bool:
    """Return whether the folder is in a repository of git."""
    return work_tree_around(root.resolve() / ".git") is not None


def has_commits(root: Path) -> bool:
    """Return whether the repository around a folder has commits, or whether that is unknown."""
    top = _top(root / ".git")
    if top is None or top == Path():
        return top is not None
    return ask_git(top, ["rev-list", "--all", "--max-count=1"]) != b""


def _top(path: Path) -> Path | None:
    """Return the top of the work tree around a file, None for no repository, "." if unknown."""
    try:
        return work_tree_around(path.resolve())
    except (OSError, RuntimeError):
        return Path()


def object_name(content: bytes, algorithm: str) -> bytes:
    """Return the name of a blob with this content, by one of `HASHES`."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    found.update(b"blob %d\0" % len(content))
    found.update(content)
    return found.hexdigest().encode()


def _is_converted(top: Path, path: Path, attributes: Sequence[str] = CONVERTING) -> bool:
    """Return whether git tracks the file and converts its bytes, or if that is unknown."""
    inside = os.fspath(path.resolve().relative_to(top))
    answer = ask_git(top, ["check-attr", "-z", *attributes, "--", inside])
    if answer is None:
        return True
    values = answer.split(b"\0")[2::3]  # of path, attribute and value
    if all(value in {b"unspecified", b"unset"} for value in values):
        return False
    texts = recorded_texts(path)
    return texts is None or bool(texts)


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
    """A merge that left generated files unmerged.

    `problems` are sorted sentences, one for each edited file, with the side of the edit. `listed`
    are the files that either side has generated; `manifests` and `facts` are the texts of the
    `manifest.json` and `project.json` of both sides, if they have them. `marked` are the locations
    of git's conflict markers in user-written files of `.ralph`, as `path:line`.
    """

    problems: tuple[str, ...]
    listed: frozenset[str]
    manifests: tuple[bytes, ...]
    facts: tuple[bytes, ...]
    marked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side: the files in its manifest, and the digests of the files in its commit."""

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
    if not unmerged and manifest_entries(place) is not None:
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
    # If a side's commit is unknown, its version in the index counts, so that no edit is missed.
    unknown = [name for name in STAGES if name not in {side.name for side in sides}]
    staged = [repository.staged(name) for name in unknown]
    known = [(side.manifest, side.facts) for side in sides]
    manifests, facts = zip(*known, *staged, strict=True)
    return Merge(
        tuple(sorted(problems)),
        frozenset(path for side in sides for path in side.listed),
        tuple(text for text in manifests if text is not None),
        tuple(text for text in facts if text is not None),
        tuple(_conflict_locations(root, top)),
    )


def _conflict_locations(root: Path, top: Path) -> Iterator[str]:
    """Yield the locations of conflict markers in unmerged user-written files of `.ralph`."""
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
    """Return a message for each file on disk that differs from every known version."""
    paths = sorted({path for side in sides for path in side.digests})
    staged = dict(zip(paths, repository.texts(":0:", paths), strict=True))
    written = manifest_entries(place) or {}
    found: list[str] = []
    for path in paths:
        accepted = {side.digests[path] for side in sides if path in side.digests}
        text = staged[path]
        if text is not None and len(accepted) > 1:  # put together by git
            accepted.add(digest(text))
        try:
            on_disk = (place / path).read_bytes()
        except OSError:  # deleted, or locked by a writer
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
        """Return the generated folder as of a commit; None without a complete manifest."""
        manifest, facts = self.texts(f"{commit}:", [MANIFEST, FACTS_NAME])
        known = None if manifest is None else parse_manifest(manifest)
        if manifest is None or known is None:
            return None
        texts = zip(known, self.texts(f"{commit}:", [*known]), strict=True)
        digests = {path: digest(text) for path, text in texts if text is not None}
        return _Side(name, manifest, facts, known, digests)

    def texts(self, revision: str, paths: Sequence[str]) -> list[bytes | None]:
        """Return the files as of a revision such as `HEAD:`, with None for missing files."""
        names = [os.fsencode(f"{revision}{self.folder}/{path}") for path in paths]
        return read_files_of_git(self.top, names) or [None] * len(names)
