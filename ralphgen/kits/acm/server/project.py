"""Tools on a project: guidance for its type, and checks of its structure and its health."""

from __future__ import annotations

from ralphgen.runtime.errors import one_line

from .documents import fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

TYPES_SPEC = "ACM-PROJECT-TYPES-SPEC.md"
MODIFIERS = ("scale", "scope")


def get_project_type_guidance(acm: Acm, arguments: dict[str, Any]) -> str:
    """What the spec of project types says of a type and its modifiers."""
    from .guidance import guidance

    text = acm.text(TYPES_SPEC, "project types spec")
    modifiers = {name: str(arguments[name]) for name in MODIFIERS if name in arguments}
    return fitted(guidance(text, arguments["type"], modifiers), TYPES_SPEC)


def check_project_structure(acm: Acm, arguments: dict[str, Any]) -> str:
    """Which of the folders and files of a project are there."""
    from .structure import ITEMS, item_lines, missing_items

    project = acm.project_folder(arguments.get("project_path"))
    missing = missing_items(project)
    result = f"Result: {len(ITEMS) - len(missing)}/{len(ITEMS)} passed."
    named = f" Missing: {', '.join(missing)}" if missing else ""
    title = f"Project Structure Check: {one_line(project)}"
    return "\n".join([title, *item_lines(missing), "", result + named])


def check_project_health(acm: Acm, arguments: dict[str, Any]) -> str:
    """How a project's files, their front matter and their sections stand."""
    from .health import health

    project = acm.project_folder(arguments.get("project_path"))
    return f"Project Health Check: {one_line(project)}\n\n{health(project)}"
