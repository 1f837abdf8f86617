"""Examines a project's key artifacts: files, front matter and sections, never their meaning."""

from __future__ import annotations

from ralphgen.runtime.files.markdown import headings

from .front_matter import VALID, FrontMatter, read_front_matter
from .paths import MISSING, OUTSIDE, UnreadableError, read_text
from .structure import ITEMS, item_lines, missing_items
from .transition import STATUSES, status_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Artifacts = Mapping[str, FrontMatter | str]

STATUS = STATUSES[0]
# In the order of the answer; the place of the status may be another one.
FRONT_MATTER = ("docs/intent.md", "docs/brief.md", STATUS, ".claude/CLAUDE.md")
# By artifact, the headings that it needs, each with those that count for it. They follow version
# 1.0 of the specs of the brief, the intent, the status and a project's CLAUDE.md.
SECTIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "docs/brief.md": (
        ("Summary",),
        ("Scope",),
        ("Success Criteria",),
        ("Constraints",),
        ("Decisions", "Decision Log"),
    ),
    "docs/intent.md": (("Problem",), ("Outcome", "Desired Outcome"), ("Why It Matters",)),
    STATUS: (("Current State",),),
    ".claude/CLAUDE.md": (("Context Map", "Orientation"),),
}
# Where either of two headings will do, both are named: the others are other words for the first.
EITHER = "Context Map"
_REQUIRED = sum(len(needed) for needed in SECTIONS.values())
_SHORT = {MISSING: "file missing", OUTSIDE: "sandbox error"}


def health(project: str) -> str:
    """The three groups of checks and their totals, for the project in a folder."""
    missing = missing_items(project)
    places = {name: status_file(project) if name == STATUS else name for name in FRONT_MATTER}
    artifacts = {name: _artifact(project, place) for name, place in places.items()}
    front = [_front_matter_line(places[name], artifacts[name]) for name in FRONT_MATTER]
    sections = [
        line for name in SECTIONS for line in _section_lines(name, places[name], artifacts[name])
    ]
    counts = (
        ("File presence", len(ITEMS) - len(missing), len(ITEMS)),
        ("Frontmatter", _passed(front), len(FRONT_MATTER)),
        ("Sections", _passed(sections), _REQUIRED),
    )
    groups = (
        ("File Presence", item_lines(missing)),
        ("Frontmatter Validation", front),
        ("Required Sections", sections),
    )
    lines = [text for title, found in groups for text in (f"### {title}", "", *found, "")]
    return "\n".join([*lines, "---", *_totals(counts)])


def _totals(counts: tuple[tuple[str, int, int], ...]) -> list[str]:
    """One line for each group of checks, and one for all."""
    lines = [f"{title}: {passed}/{whole}" for title, passed, whole in counts]
    passed = sum(count for _, count, _ in counts)
    whole = sum(count for _, _, count in counts)
    word = "healthy" if passed == whole else "needs attention"
    return [*lines, f"Overall: {word} ({passed}/{whole} checks passed)"]


def _artifact(project: str, name: str) -> FrontMatter | str:
    """The front matter and text of an artifact, else what is wrong with its file."""
    try:
        return read_front_matter(read_text(project, name))
    except UnreadableError as error:
        return _SHORT.get(error.why, error.why.removeprefix("is "))


def _front_matter_line(name: str, found: FrontMatter | str) -> str:
    state = found if isinstance(found, str) else found.state
    return f"{'✓' if state == VALID else '✗'} {name} — {state}"


def _section_lines(name: str, place: str, found: FrontMatter | str) -> list[str]:
    """One line for each heading that an artifact needs, or one on its file."""
    if isinstance(found, str):
        return [f"✗ {place} — {found}"]
    known = headings(found.body)
    lines = []
    for names in SECTIONS[name]:
        there = any(heading.begins_with(words) for heading in known for words in names)
        shown = " or ".join(names) if names[0] == EITHER else names[0]
        lines.append(f"✓ {place}: {shown}" if there else f"✗ {place}: {shown} — missing")
    return lines


def _passed(lines: list[str]) -> int:
    return sum(line.startswith("✓") for line in lines)
