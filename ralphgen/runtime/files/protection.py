"""Which paths no session may change: ralphgen's own, git's, and those that a project's globs mean.

It imports nothing of ours: the hook of Claude Code has a copy of it, and runs outside of a server.
"""

from __future__ import annotations

import os
import re

RALPH = ".ralph"
# What no session may change, whatever a project protects besides.
PROTECTED = ("ralphgen.toml", "mcp", "recipes", "prompts", "queries", "tools", "plugin")
# A part of a path that is `.git` for some file system: case is ignored, and so are some characters
# without a width; blanks and points at the end, and what follows a colon, are no part of the name.
_BLANK = "[\\u200c-\\u200f\\u202a-\\u202e\\u206a-\\u206f\\ufeff]*"
GIT_PART = _BLANK.join(["", "[.]", "[gG]", "[iI]", "[tT]", ""]) + "[ .]*"
_GIT = re.compile(rf"(?:{GIT_PART}|git~\d+[ .]*)(?::.*)?", re.IGNORECASE | re.DOTALL)
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
_PIECES = re.compile(r"(\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\])")
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)


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
    spelled = ""
    for piece in _PIECES.split(_composed(glob).strip("/")):
        is_set = len(piece) > 1 and piece.startswith("[") and piece.endswith("]")
        spelled += _set_of(piece) if is_set else _SPELLED.get(piece, re.escape(piece))
    flags = re.IGNORECASE if root is not None and _ignores_case(root) else 0
    return Pattern(re.compile(rf"(?s:{spelled})(?:/|\Z)", flags))


def _set_of(piece: str) -> str:
    """Return the expression for `[…]`: one of its characters, or its text."""
    negation = "^" if piece[1] in "!^" else ""
    members = ""
    for first, last, single in _RANGE.findall(piece[2 if negation else 1 : -1]):
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
    return any(_GIT.fullmatch(part) for part in re.split(r"[/\\]", path))
