"""Finds the repository of a folder, the home of its project, and what is protected there."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator


MARK = ".git"  # a folder in a main work tree, a file in a linked one
PROJECT = ".ralph"  # the folder that makes one a project
TREES = f"{os.sep}{PROJECT}{os.sep}worktrees{os.sep}"  # where agents have work trees
LARGEST = 1 << 16  # bytes of a file of git that is read here
_BARE = rb"(?im)^\s*bare\s*=\s*(true|yes|on|1)\s*$"
_WORKTREE = rb"(?im)^\s*worktree\s*=\s*(.+?)\s*$"  # of a submodule, in its own directory of git
_GIT_DIR = ("HEAD", "objects", "refs")  # what a directory of git contains


class Repository:
    """One work tree, by real paths.

    `top` is the top directory of the tree, `git_dir` holds its index and `HEAD`, and `common` is
    shared by all work trees of the repository.
    """

    __slots__ = ("common", "git_dir", "top")

    def __init__(self, top: str, git_dir: str, common: str) -> None:
        self.top = top
        self.git_dir = git_dir
        self.common = common


def repository_of(folder: str) -> Repository | None:
    """Return the repository that a folder belongs to, or None.

    An agent can write everything in its work tree in `.ralph/worktrees`, including `.git`. For
    such a folder, the main repository alone says which tree it is.
    """
    real = os.path.realpath(folder)
    main, is_agents, rest = (real + os.sep).partition(TREES)
    name = rest.partition(os.sep)[0]
    if is_agents and name:
        around = _repository_around(main)
        return None if around is None else linked_tree(around.common, main + TREES + name)
    top = tree_top(real)
    return None if top is None else opened_tree(top)


def linked_tree(common: str, top: str) -> Repository | None:
    """Return the linked work tree at `top` as its repository has it on record, or None."""
    return next((tree for tree in linked_trees(common) if tree.top == top), None)


def linked_trees(common: str) -> Iterator[Repository]:
    """Yield the linked work trees that a repository has on record; their folders may be gone."""
    folder = os.path.join(common, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        git_dir = os.path.join(folder, name)
        try:
            mark = os.path.join(git_dir, _line(os.path.join(git_dir, "gitdir")))
        except (OSError, ValueError):
            continue
        yield Repository(os.path.realpath(os.path.dirname(mark)), git_dir, common)


def home_of(folder: str) -> str:
    """Return the home of the project in a folder: it has database, sessions and worktrees.

    All worktrees of a repository share it. It is the same folder in the main worktree. A bare
    repository has none, and the directory whose `.git` names it takes its place, or else the
    repository itself: never the user's home directory, which other repositories are in too.
    """
    return counterpart(folder) or os.path.realpath(folder)


def counterpart(folder: str) -> str | None:
    """Return the home of a folder in a linked worktree; None for any other folder."""
    real = os.path.realpath(folder)
    tree = repository_of(real)
    if tree is None or tree.git_dir == tree.common:
        return None
    return os.path.normpath(os.path.join(home_top(tree), os.path.relpath(real, tree.top)))


def is_agents_tree(folder: str) -> bool:
    """Return whether a folder is in a worktree that the loop made for an agent."""
    return TREES in os.path.realpath(folder) + os.sep


def is_without_tree(home: str) -> bool:
    """Return whether a home is that of a bare repository, in which no file is checked out."""
    around = _repository_around(os.path.realpath(home))
    return around is not None and around.git_dir == around.common and _is_bare(around.common)


def home_top(tree: Repository) -> str:
    """Return the home of a project at the top of a worktree."""
    if tree.git_dir == tree.common:
        return tree.top
    around, is_agents, _ = tree.top.partition(TREES)
    if is_agents:
        main = _repository_around(around)
        return around if main is None else main.top
    common, above = tree.common, os.path.dirname(tree.common)
    if os.path.basename(common) == MARK and not _is_bare(common):
        return above
    import re

    if named := re.search(_WORKTREE, _settings(common)):
        checkout = os.path.realpath(os.path.join(common, os.fsdecode(named[1])))
        if _names(checkout, common):  # an archive may name any directory
            return checkout
    if above != os.path.realpath(os.path.expanduser("~")) and _names(above, common):
        return above
    return common


def _names(folder: str, common: str) -> bool:
    """Return whether the `.git` of a folder is this directory of git, or a file that names it."""
    named = opened_tree(folder)
    return named is not None and named.git_dir == common


def _repository_around(folder: str) -> Repository | None:
    """Return the repository that has a folder in its main worktree, or in a bare repository."""
    at = folder
    while not os.path.lexists(os.path.join(at, MARK)):
        if all(os.path.exists(os.path.join(at, name)) for name in _GIT_DIR):
            return Repository(at, at, at)
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return opened_tree(at)


def _is_bare(common: str) -> bool:
    import re

    return re.search(_BARE, _settings(common)) is not None


def _settings(common: str) -> bytes:
    """Return the repository's own settings of git; empty if they cannot be read."""
    found = b""
    for name in ("config", "config.worktree"):  # git moves `core.bare` to the second
        try:
            with open(os.path.join(common, name), "rb") as file:
                found += file.read(LARGEST) + b"\n"
        except OSError:
            continue
    return found


def tree_top(folder: str) -> str | None:
    """Return the nearest folder, this one or one around it, that has a `.git`."""
    at = folder
    while not os.path.lexists(os.path.join(at, MARK)):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def opened_tree(top: str) -> Repository | None:
    """Return the repository that the `.git` of a work tree names.

    None if that repository has another tree on record: an archive may contain a `.git` file that
    names any repository of the user.
    """
    mark = os.path.join(top, MARK)
    try:
        git_dir = mark
        if os.path.isfile(mark):
            if os.path.islink(mark):
                return None
            git_dir = os.path.join(top, _line(mark).removeprefix("gitdir:").strip())
        git_dir = os.path.realpath(git_dir)
        shared = os.path.join(git_dir, "commondir")
        if not os.path.lexists(shared):
            return Repository(top, git_dir, git_dir)
        common = os.path.realpath(os.path.join(git_dir, _line(shared)))
    except (OSError, ValueError):
        return None
    tree = linked_tree(common, top)
    return tree if tree is not None and tree.git_dir == git_dir else None


def _line(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(LARGEST)).strip()


RALPH = ".ralph"
# What no session may change, whatever a project protects besides.
PROTECTED = ("ralphgen.toml", "mcp", "recipes", "prompts", "queries", "tools", "plugin")
# A part of a path that is `.git` for some file system: case is ignored, and so are some characters
# without a width; blanks and points at the end, and what follows a colon, are no part of the name.
_BLANK = "[\\u200c-\\u200f\\u202a-\\u202e\\u206a-\\u206f\\ufeff]*"
GIT_PART = _BLANK.join(["", "[.]", "[gG]", "[iI]", "[tT]", ""]) + "[ .]*"
_GIT = rf"(?is)(?:{GIT_PART}|git~\d+[ .]*)(?::.*)?"
# Files and folders from which clients take permissions, programs and servers, in small letters.
CLIENT_FOLDERS = frozenset(
    {
        *(".amazonq", ".amp", ".augment", ".claude", ".clinerules", ".codex", ".continue"),
        *(".crush", ".cursor", ".factory", ".gemini", ".iflow", ".junie", ".kilocode", ".kiro"),
        *(".opencode", ".qwen", ".roo", ".trae", ".windsurf", ".zed"),
    }
)
CLIENT_FILES = frozenset(
    {
        *(".aider.conf.yml", ".continuerc.json", ".crush.json", ".crushrc", ".mcp.json"),
        *(".roomodes", "crush.json", "crushrc", "opencode.json", "opencode.jsonc"),
    }
)
# Folders of editors and hosts, of which only these parts are such settings.
CLIENT_PARTS = {
    ".github": frozenset({"copilot", "hooks"}),
    ".vscode": frozenset({"mcp.json", "settings.json", "tasks.json"}),
}
_CLAUDE, _READ = ".claude", frozenset({"skills", "worktrees", "claude.md", "claude.local.md"})
_SPELLED = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_PIECES = r"(\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\])"
_RANGE = r"(?s)(.)-(.)|(.)"


def is_client_setting(path: str) -> bool:
    """Return whether a client takes settings from a path, at any depth and in any case."""
    parts = path.casefold().split("/")
    for at, part in enumerate(parts):
        below = parts[at + 1 :]
        if part in CLIENT_FOLDERS and not (part == _CLAUDE and below and below[0] in _READ):
            return True
        if part in CLIENT_FILES and not below:
            return True
        if part in CLIENT_PARTS and (not below or below[0] in CLIENT_PARTS[part]):
            return True
    return False


class Pattern:
    """The paths that a glob means, with everything below them."""

    __slots__ = ("_expression",)

    def __init__(self, expression: re.Pattern[str]) -> None:
        self._expression = expression

    def match(self, path: str) -> bool:
        """Return whether a path is one of them, in any Unicode form."""
        return self._expression.match(_composed(path)) is not None


def pattern_of(glob: str, root: str | None = None) -> Pattern:
    """Return the pattern of a glob, which ignores case if the file system of `root` does.

    `*` and `?` stand for characters of one part of a path, `**` for any number of parts, and
    `[ab]`, `[a-z]` and `[!a]` for one character, or for the same text in a name: `[id]` may be one.
    """
    import re

    spelled = ""
    for piece in re.split(_PIECES, _composed(glob).strip("/")):
        is_set = len(piece) > 1 and piece.startswith("[") and piece.endswith("]")
        spelled += _set_of(piece) if is_set else _SPELLED.get(piece, re.escape(piece))
    flags = re.IGNORECASE if root is not None and _ignores_case(root) else 0
    return Pattern(re.compile(rf"(?s:{spelled})(?:/|\Z)", flags))


def _set_of(piece: str) -> str:
    """Return the expression for `[…]`: one of its characters, or its text."""
    import re

    negation = "^" if piece[1] in "!^" else ""
    members = ""
    for first, last, single in re.findall(_RANGE, piece[2 if negation else 1 : -1]):
        if single or first <= last:
            members += re.escape(single) if single else f"{re.escape(first)}-{re.escape(last)}"
    return f"(?:(?!/)[{negation}{members}]|{re.escape(piece)})" if members else re.escape(piece)


def _composed(text: str) -> str:
    """Return a path with its accents in one form: some file systems keep another."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text)


def _ignores_case(root: str) -> bool:
    try:
        return os.path.samefile(os.path.join(root, RALPH), os.path.join(root, RALPH.upper()))
    except OSError:
        return False


def is_of_git(path: str) -> bool:
    """Return whether a part of a path names the directory or the file of a repository."""
    import re

    return any(re.fullmatch(_GIT, part) for part in re.split(r"[/\\]", path))
