"""The recipe of the session as a prompt, with its brief."""

from __future__ import annotations

from ralphgen.runtime.kit import Prompt

from .workspace import purpose_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.kit import Tool
    from ralphgen.runtime.session import Session

    from .workspace import Workspace

LONGEST_NAME = 64
NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
ARGUMENTS = {
    "task": "The id of the task to work on.",
    "feature": "The name of the feature to work on.",
}
WITHOUT_PROMPT = ("interactive", "manual")


def prompts(session: Session, tools: Sequence[Tool]) -> list[Prompt]:
    """Return the one prompt of a session; none in manual and interactive sessions (SPEC-070).

    A recipe of the project with a prompt has one with every base.
    """
    if session.profile in WITHOUT_PROMPT and not session.brief.get("prompt"):
        return []

    def text(workspace: Workspace, given: Mapping[str, str]) -> str:
        from .brief import make_brief  # a server that is just asked for its lists needs none

        made = make_brief(workspace, tools, given)
        return f"{made['system']}\n\n{made['task']}"

    arguments = {kind: ARGUMENTS[kind] for kind in session.open_kinds() if kind in ARGUMENTS}
    plain = [letter if letter in NAME_LETTERS else "_" for letter in session.recipe]
    name = "".join(plain)[:LONGEST_NAME]
    return [Prompt(name, purpose_of(session), arguments=arguments, text=text)]


def brief(workspace: Workspace, tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the brief of the session; see `make_brief`."""
    from .brief import make_brief

    return make_brief(workspace, tools, {})
