"""Picks what the spec of project types says of one type, one scale and one scope."""

from __future__ import annotations

from ralphgen.runtime.files.markdown import section, table, table_lines

from .front_matter import read_front_matter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

IMPLICATIONS = "Type Implications"
SPELLINGS = {"full": ("full", "full-build")}  # of a modifier, in the spec


def guidance(text: str, kind: str, modifiers: Mapping[str, str]) -> str:
    """The section of a type, the row of each modifier, and the type's column of implications.

    Where the spec has no such section, all of it with a note; where it lacks a row, a note.
    """
    title = f"## Project Type Guidance: {' · '.join([kind, *modifiers.values()])}"
    spec = read_front_matter(text).body
    found = section(spec, kind)
    if not found:
        note = f'The spec has no section on "{kind}": here is the whole of it.'
        return f"{title}\n\n{note}\n\n{text}"
    parts = [
        found,
        *(_modifier(spec, name, value) for name, value in modifiers.items()),
        _implications(spec, kind),
    ]
    bodies = ["\n".join(part).strip() for part in parts]
    return "\n\n".join([title, *filter(None, bodies)]) + "\n"


def _modifier(spec: str, name: str, value: str) -> list[str]:
    """The row that a modifier has for a value."""
    rows = table(section(spec, name))
    known = SPELLINGS.get(value, (value,))
    chosen = [row for row in rows[1:] if _plain(row[0]) in known]
    if not chosen:
        return [f'The spec has no {name} "{value}".']
    return [f"### {name.capitalize()}: {value}", "", *table_lines([rows[0], *chosen])]


def _implications(spec: str, kind: str) -> list[str]:
    """The column of a type, beside that of the aspects; nothing where there is none."""
    rows = table(section(spec, IMPLICATIONS))
    columns = [place for place, cell in enumerate(rows[0] if rows else []) if _plain(cell) == kind]
    if not columns or not columns[0]:
        return []
    at = columns[0]
    picked = [[row[0], row[at]] for row in rows if len(row) > at]
    return [f"### {IMPLICATIONS}: {kind}", "", *table_lines(picked)]


def _plain(cell: str) -> str:
    """Return what a cell says, without code marks and emphasis, in small letters."""
    return cell.strip("`*_ ").casefold()
