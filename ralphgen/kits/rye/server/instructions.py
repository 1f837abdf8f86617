"""What a session is told about directives, tools and knowledge."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

ABOUT = (
    "Items are directives (workflows to follow), tools (programs) and knowledge, below .ai/ in the "
    "project, with the user and in the system; the first of them that has an id is meant."
)
# What is said of each tool that is there, in the order in which they are used.
SAID = {
    "search": "search finds items; look for one before you do by hand what it may do.",
    "load": "load reads one, with its parameters and the state of its signature.",
    "execute": (
        "execute runs a tool, or returns a directive for you to follow, or knowledge; "
        "dry_run=true only checks."
    ),
    "sign": "sign checks and signs an item after it was written or changed.",
    "help": "help explains the tools and the formats of items.",
}
ON_PATHS = (
    "project_path is always the absolute path of the project that this server belongs to, or of a "
    "folder in it."
)


def instructions(_session: Session, tools: Sequence[Tool]) -> str:
    """At most 2,000 characters on the tools that this session sees."""
    seen = {tool.name: tool for tool in tools}
    if not seen:
        return f"{ABOUT} This session has no tools here."
    said = [text for name, text in SAID.items() if name in seen]
    paths = any("project_path" in tool.properties for tool in tools)
    return "\n".join([ABOUT, *said, *([ON_PATHS] if paths else ())])
