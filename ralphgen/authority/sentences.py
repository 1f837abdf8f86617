"""Spells names that come from anywhere in sentences and in Markdown, where they can do nothing."""

import re
from collections.abc import Iterable, Sequence

from ralphgen.authority import AuthorityChange
from ralphgen.errors import plain

MOST = 20  # names of a list, before the rest is counted


def named(name: str) -> str:
    """Return a name as code in Markdown, where nothing in it is more than text."""
    text = plain(name) or " "
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (ticks + 1)
    return f"{fence} {text} {fence}" if ticks else f"{fence}{text}{fence}"


def listed(names: Iterable[str]) -> str:
    """Return names as a list in a sentence, of which the first `MOST` are said."""
    every = [*names]
    shown = ", ".join(map(named, every[:MOST]))
    return f"{shown} and {len(every) - MOST} more" if len(every) > MOST else shown


def markdown(found: Sequence[AuthorityChange], reference: str) -> str:
    """Return the changes since a commit as a comment on a change: gains first, a line each."""
    lines = [f"## Permissions of agents, compared with {named(reference)}", ""]
    if not found:
        return "\n".join([*lines, "No session can do more or less than before.", ""])
    for title, gain in (("More than before", True), ("Less than before", False)):
        of_kind = [one for one in found if one.gain is gain]
        if of_kind:
            lines += [f"### {title}", "", *map(_line, of_kind), ""]
    return "\n".join(lines)


def _line(change: AuthorityChange) -> str:
    who = [f"{listed(change.recipes)}: "] if change.recipes else []
    who += [f"discipline {listed(change.disciplines)}: "] if change.disciplines else []
    return f"- {''.join(who)}{change.text}"
