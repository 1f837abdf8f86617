"""Which paths no session may change: ralphgen's own, and those that a project's globs mean.

It imports nothing of ours: the hook of Claude Code has a copy of it, and runs outside of a server.
"""

from __future__ import annotations

import re

RALPH = ".ralph"
# What no session may change, whatever a project protects besides.
PROTECTED = ("ralphgen.toml", "mcp", "recipes", "prompts", "queries", "tools", "plugin")
_SPELLED = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def pattern_of(glob: str) -> re.Pattern[str]:
    """Return the pattern of the paths that a glob means, with all that lies below them.

    `*` and `?` stand for characters of one part of a path, `**` for any number of parts.
    """
    said = glob.strip("/")
    spelled = ""
    for piece in re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", said):
        spelled += _SPELLED.get(piece, re.escape(piece))
    return re.compile(rf"(?s:{spelled})(?:/|\Z)")
