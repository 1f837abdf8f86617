"""The section on the project's servers in `AGENTS.md`, kept between two marks."""

from collections.abc import Sequence

from ralphgen.errors import ProjectError
from ralphgen.planning.model import ServerPlan
from ralphgen.rendering.templates import rendered
from ralphgen.skills.sections import codes

FILE = "AGENTS.md"
MARK = "<!-- ralphgen: "
BEGIN = f"{MARK}generated section, rewritten by ralphgen regen -->"
END = f"{MARK}up to here -->"


def render_section(plan: ServerPlan, checks: Sequence[str]) -> str:
    """Return the section with its marks; `checks` names what a task has to pass to be done."""
    kits = [kit for kit in plan.kits if kit.skill is not None]
    named = codes(checks) if checks else ""
    return rendered("agents_md.md.jinja", begin=BEGIN, end=END, kits=kits, checks=named)


def with_section(section: str, text: str) -> str:
    """Return the text of the file with the section, at its end if it has none yet.

    Every other byte is unchanged. Raises `ProjectError` unless the text has both marks once, in
    their order, or none.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    section = section.replace("\n", end_of_line)
    lines = text.splitlines(keepends=True)
    marks = [at for at, line in enumerate(lines) if line.strip().startswith(MARK)]
    ends = [at for at in marks if lines[at].strip() == END]
    begins = [at for at in marks if at not in ends]  # earlier versions had another text there
    if not begins and not ends:
        gap = "" if not text else end_of_line if text.endswith("\n") else 2 * end_of_line
        return text + gap + section
    if len(begins) != 1 or len(ends) != 1 or ends < begins:
        wrong = f'"{FILE}" does not have both marks of ralphgen once, the first one first'
        raise ProjectError(wrong, f'put the lines "{BEGIN}" and "{END}" right, or remove both')
    return "".join([*lines[: begins[0]], section, *lines[ends[0] + 1 :]])
