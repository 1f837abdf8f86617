"""Looks for the folders and files that every project has."""

from __future__ import annotations

from .paths import MISSING, OUTSIDE, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What ends in a slash is a folder.
ITEMS = (
    *(".claude/CLAUDE.md", ".claude/rules/", "docs/", "docs/intent.md", "docs/brief.md"),
    *("docs/inbox/", "_archive/", "README.md"),
)
_SHORT = {MISSING: "missing", OUTSIDE: "sandbox error"}


def missing_items(project: str) -> dict[str, str]:
    """By item that a project lacks, what is wrong with it in a few words."""
    found = {item: trouble(project, item) for item in ITEMS}
    return {
        item: _SHORT.get(why, why.removeprefix("is ").strip()) for item, why in found.items() if why
    }


def item_lines(missing: Mapping[str, str]) -> list[str]:
    """One line for each item: whether it is there."""
    return [f"✗ {item} — {missing[item]}" if item in missing else f"✓ {item}" for item in ITEMS]
