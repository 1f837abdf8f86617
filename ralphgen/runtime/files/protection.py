"""Which paths no session may change: ralphgen's own, git's, and those that a project's globs mean.

It imports nothing of ours: the hook of Claude Code has a copy of it, and runs outside of a server.
"""

from __future__ import annotations

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


def pattern_of(glob: str) -> re.Pattern[str]:
    """Return the pattern of the paths that a glob means, with all that lies below them.

    `*` and `?` stand for characters of one part of a path, `**` for any number of parts.
    """
    said = glob.strip("/")
    spelled = ""
    for piece in re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", said):
        spelled += _SPELLED.get(piece, re.escape(piece))
    return re.compile(rf"(?s:{spelled})(?:/|\Z)")


def is_of_git(path: str) -> bool:
    """Return whether a part of a path names the directory or the file of a repository."""
    return any(_GIT.fullmatch(part) for part in re.split(r"[/\\]", path))
