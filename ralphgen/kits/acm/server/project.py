"""Tools on a project: guidance for its type, its rules, and checks of its structure and health.

The checks cover files, front matter and headings, but not the meaning of the text.
"""

from __future__ import annotations

from ralphgen.runtime.errors import one_line

from .front_matter import VALID, FrontMatter, read_front_matter
from .orchestration import STATUSES, status_file
from .workspace import MISSING, OUTSIDE, UnreadableDocumentError, fitted, read_text, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .workspace import Acm

TYPES_SPEC = "ACM-PROJECT-TYPES-SPEC.md"
RULES = "ACM-RULES-SPEC.md"
LEVELS = {"global": "ACM-GLOBAL-CLAUDE-MD-SPEC.md", "project": "ACM-PROJECT-CLAUDE-MD-SPEC.md"}
MODIFIERS = ("scale", "scope")
SPELLINGS = {"full": ("full", "full-build")}  # of a modifier, in the spec
IMPLICATIONS = "Type Implications"

# The items of every project; a name that ends in a slash is a folder.
ITEMS = (
    *(".claude/CLAUDE.md", ".claude/rules/", "docs/", "docs/intent.md", "docs/brief.md"),
    *("docs/inbox/", "_archive/", "README.md"),
)
STATUS = STATUSES[0]
# In the order of the answer; the place of the status may be another one.
FRONT_MATTER = ("docs/intent.md", "docs/brief.md", STATUS, ".claude/CLAUDE.md")
# By artifact, its required headings, each with the accepted alternatives. They follow version 1.0
# of the specs of the brief, the intent, the status and a project's CLAUDE.md.
SECTIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "docs/brief.md": (
        ("Summary",),
        ("Scope",),
        ("Success Criteria",),
        ("Constraints",),
        ("Decisions", "Decision Log"),
    ),
    "docs/intent.md": (
        ("Problem",),
        ("Outcome", "Outcomes", "Desired Outcome", "Desired Outcomes"),
        ("Why It Matters",),
    ),
    STATUS: (("Current State",),),
    ".claude/CLAUDE.md": (("Context Map", "Orientation"),),
}
# The heading whose alternative is named too; other alternatives are synonyms of the first.
EITHER = "Context Map"


def get_rules_spec(acm: Acm, _arguments: dict[str, Any]) -> str:
    """Return the spec of a project's rules."""
    return acm.document_answer(RULES, "rules spec")


def get_context_spec(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the spec of a global or a project CLAUDE.md."""
    return acm.document_answer(LEVELS[arguments["level"]], "context spec")


def get_project_type_guidance(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the part of the spec of project types about a type and its modifiers."""
    text = acm.document(TYPES_SPEC, "project types spec")
    modifiers = {name: str(arguments[name]) for name in MODIFIERS if name in arguments}
    return fitted(guidance(text, arguments["type"], modifiers), TYPES_SPEC)


def check_project_structure(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return which of the folders and files of a project are there."""
    project = acm.project_folder(arguments.get("project_path"))
    missing = _missing_items(project)
    result = f"Result: {len(ITEMS) - len(missing)}/{len(ITEMS)} passed."
    named = f" Missing: {', '.join(missing)}" if missing else ""
    title = f"Project Structure Check: {one_line(project)}"
    return "\n".join([title, *_item_lines(missing), "", result + named])


def check_project_health(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return which files, front matter and sections of a project are as they should be."""
    project = acm.project_folder(arguments.get("project_path"))
    return f"Project Health Check: {one_line(project)}\n\n{health(project)}"


def guidance(text: str, kind: str, modifiers: Mapping[str, str]) -> str:
    """Return the section of a type, the row of each modifier, and the type's implications.

    If the spec lacks the section, return the full spec with a note; if it lacks a row, a note.
    """
    from ralphgen.runtime.files.markdown import section

    title = f"## Project Type Guidance: {' · '.join([kind, *modifiers.values()])}"
    spec = read_front_matter(text).body
    found = section(spec, kind)
    if not found:
        note = f'The spec has no section on "{kind}": the full text follows.'
        return f"{title}\n\n{note}\n\n{text}"
    parts = [
        found,
        *(_modifier_rows(spec, name, value) for name, value in modifiers.items()),
        _implications(spec, kind),
    ]
    bodies = ["\n".join(part).strip() for part in parts]
    return "\n\n".join([title, *filter(None, bodies)]) + "\n"


def _modifier_rows(spec: str, name: str, value: str) -> list[str]:
    """Return the row that a modifier has for a value."""
    from ralphgen.runtime.files.markdown import section, table, table_lines

    rows = table(section(spec, name))
    known = SPELLINGS.get(value, (value,))
    chosen = [row for row in rows[1:] if _plain(row[0]) in known]
    if not chosen:
        return [f'The spec has no {name} "{value}".']
    return [f"### {name.capitalize()}: {value}", "", *table_lines([rows[0], *chosen])]


def _implications(spec: str, kind: str) -> list[str]:
    """Return the column of a type next to the column of the aspects; empty if there is none."""
    from ralphgen.runtime.files.markdown import section, table, table_lines

    rows = table(section(spec, IMPLICATIONS))
    columns = [place for place, cell in enumerate(rows[0] if rows else []) if _plain(cell) == kind]
    if not columns or not columns[0]:
        return []
    at = columns[0]
    picked = [[row[0], row[at]] for row in rows if len(row) > at]
    return [f"### {IMPLICATIONS}: {kind}", "", *table_lines(picked)]


def _plain(cell: str) -> str:
    """Return the text of a cell, without code marks and emphasis, in small letters."""
    return cell.strip("`*_ ").casefold()


def _missing_items(project: str) -> dict[str, str]:
    """Return the items that a project lacks, each with a short reason."""
    found = {item: trouble(project, item) for item in ITEMS}
    return {item: _short(why, "missing") for item, why in found.items() if why}


def _item_lines(missing: Mapping[str, str]) -> list[str]:
    """Return one line for each item: whether it is there."""
    return [f"✗ {item} — {missing[item]}" if item in missing else f"✓ {item}" for item in ITEMS]


def _short(why: str, missing: str) -> str:
    """Return why a file cannot be read, in a few words."""
    return {MISSING: missing, OUTSIDE: "sandbox error"}.get(why, why.removeprefix("is "))


def health(project: str) -> str:
    """Return the three groups of checks and their totals, for the project in a folder."""
    missing = _missing_items(project)
    places = {name: status_file(project) if name == STATUS else name for name in FRONT_MATTER}
    artifacts = {name: _artifact(project, place) for name, place in places.items()}
    states = {
        places[name]: found if isinstance(found, str) else found.state
        for name, found in artifacts.items()
    }
    front_matter = [
        f"{'✓' if state == VALID else '✗'} {place} — {state}" for place, state in states.items()
    ]
    sections = [
        line for name in SECTIONS for line in _section_lines(name, places[name], artifacts[name])
    ]
    required = sum(len(needed) for needed in SECTIONS.values())
    groups = (
        ("File Presence", _item_lines(missing)),
        ("Frontmatter Validation", front_matter),
        ("Required Sections", sections),
    )
    counts = (
        ("File presence", len(ITEMS) - len(missing), len(ITEMS)),
        ("Frontmatter", _passed(front_matter), len(FRONT_MATTER)),
        ("Sections", _passed(sections), required),
    )
    passed = sum(count for _, count, _ in counts)
    whole = sum(of for _, _, of in counts)
    word = "healthy" if passed == whole else "needs attention"
    return "\n".join(
        [
            *(text for title, found in groups for text in (f"### {title}", "", *found, "")),
            "---",
            *(f"{title}: {count}/{of}" for title, count, of in counts),
            f"Overall: {word} ({passed}/{whole} checks passed)",
        ]
    )


def _artifact(project: str, name: str) -> FrontMatter | str:
    """Return the front matter and text of an artifact, else the problem of its file."""
    try:
        return read_front_matter(read_text(project, name))
    except UnreadableDocumentError as error:
        return _short(error.why, "file missing")


def _section_lines(name: str, place: str, found: FrontMatter | str) -> list[str]:
    """Return one line for each heading that an artifact needs, or one on its file."""
    if isinstance(found, str):
        return [f"✗ {place} — {found}"]
    from ralphgen.runtime.files.markdown import headings

    known = headings(found.body)
    lines = []
    for names in SECTIONS[name]:
        there = any(heading.begins_with(words) for heading in known for words in names)
        shown = " or ".join(names) if names[0] == EITHER else names[0]
        lines.append(f"✓ {place}: {shown}" if there else f"✗ {place}: {shown} — missing")
    return lines


def _passed(lines: list[str]) -> int:
    return sum(line.startswith("✓") for line in lines)
