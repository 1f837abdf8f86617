"""Which names a new feature or discipline may have, and which known ones are much like it."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.values.nearest import LONGEST_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from difflib import SequenceMatcher

MOST_SIMILAR = 5
SHORTEST_PREFIX = 3  # "ui" begins too many words to mean one of them
NEAR = 0.8  # of difflib's ratio: one letter in five may differ
SHOWN = 60  # characters of a name in a sentence

_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FOREIGN = re.compile(r"[^a-z0-9]+")


def name_problem(name: str) -> str | None:
    """One sentence on why nothing new may have this name, `None` where it may.

    Names are looked up exactly as they are stored, so only new ones are held to a form: lower-case
    letters and digits, with single "-" or "_" between them.
    """
    if _NAME.fullmatch(name):
        too_long = f"a name of {len(name)} characters is too long: {LONGEST_NAME} is the most"
        return too_long if len(name) > LONGEST_NAME else None
    form = _normal_form(name) if len(name) <= SHOWN else ""
    shown = json.dumps(name[:SHOWN], ensure_ascii=not name.isprintable())
    hint = f': use "{form}"' if form else ""
    return (
        f"{shown} is no name of lower-case letters and digits, "
        f'with single "-" or "_" between them{hint}'
    )


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Up to five of the `known` names that may mean the same, the likeliest first.

    One is similar if it begins with the other ("auth", "authentication") or is spelled much
    alike. Case, hyphens, underscores and spaces do not count; the order of `known` neither.
    """
    letters = _letters(name)
    if not letters or len(name) > LONGEST_NAME:
        return []
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=letters, autojunk=False)
    found: list[tuple[float, str]] = []
    for other in set(known) - {name}:
        likeness = _likeness(matcher, letters, _letters(other))
        if likeness >= NEAR:
            found.append((-likeness, other))
    return [other for _, other in sorted(found)[:MOST_SIMILAR]]


def _normal_form(name: str) -> str:
    """The name that was most likely meant, in the form of a new one; empty where none is left."""
    from unicodedata import normalize

    plain = normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    spaced = _CAMEL.sub("-", plain).lower()
    return _FOREIGN.sub(lambda run: "_" if set(run[0]) == {"_"} else "-", spaced).strip("-_")


def _letters(name: str) -> str:
    """A name without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _likeness(matcher: SequenceMatcher[str], letters: str, other: str) -> float:
    """How much alike two names are: 2 for the same letters, 1 to 2 where one begins the other."""
    shorter, longer = sorted((letters, other), key=len)
    if len(shorter) >= SHORTEST_PREFIX and longer.startswith(shorter):
        return 1 + len(shorter) / len(longer)
    if len(longer) > LONGEST_NAME:
        return 0
    matcher.set_seq1(other)
    near = matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR
    return matcher.ratio() if near else 0
