"""The section on the project's servers in `AGENTS.md`, kept between two marks."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.output.files import put
from ralphgen.planning.model import ServerPlan
from ralphgen.project.files import whole_text
from ralphgen.rendering.templates import rendered
from ralphgen.skills.sections import codes

FILE = "AGENTS.md"
BEGIN = "<!-- ralphgen: what stands from here on is written anew by ralphgen skill --agents-md -->"
END = "<!-- ralphgen: up to here -->"


def render_section(plan: ServerPlan, checks: Sequence[str]) -> str:
    """Return the section with its marks; `checks` names what a task has to pass to be done."""
    kits = [kit for kit in plan.kits if kit.skill is not None]
    named = codes(checks) if checks else ""
    return rendered("agents_md.md.jinja", begin=BEGIN, end=END, kits=kits, checks=named)


def write_section(root: Path, section: str) -> bool:
    """Put the section into the project's file, at its end where it has none; whether that changed.

    All else stays to the byte. Raises `ProjectError` for a file that cannot be read or written, and
    where the marks do not stand in it once each, in their order.
    """
    old = whole_text(root / FILE, FILE, missing="")
    new = _with_section(old, section)
    if new != old:
        put(root / FILE, new)
    return new != old


def section_diff(root: Path, section: str) -> str:
    """Return how the project's file would change; raises `ProjectError` as `write_section` does."""
    old = whole_text(root / FILE, FILE, missing="")
    before, after = (
        [*text.splitlines(keepends=True)] for text in (old, _with_section(old, section))
    )
    return "".join(difflib.unified_diff(before, after, f"a/{FILE}", f"b/{FILE}"))


def _with_section(text: str, section: str) -> str:
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    section = section.replace("\n", end_of_line)
    lines = text.splitlines(keepends=True)
    begins = [at for at, line in enumerate(lines) if line.strip() == BEGIN]
    ends = [at for at, line in enumerate(lines) if line.strip() == END]
    if not begins and not ends:
        gap = "" if not text else end_of_line if text.endswith("\n") else 2 * end_of_line
        return text + gap + section
    if len(begins) != 1 or len(ends) != 1 or ends < begins:
        wrong = f'"{FILE}" does not have both marks of ralphgen once, the first one first'
        raise ProjectError(wrong, f'put the lines "{BEGIN}" and "{END}" right, or remove both')
    return "".join([*lines[: begins[0]], section, *lines[ends[0] + 1 :]])
