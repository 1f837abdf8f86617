"""Which names a spec may have, and how one is made from a goal."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

LONGEST = 64
LONGEST_FROM_GOAL = 50

_READ = 1_000  # characters of a goal: its beginning is what names a spec
_NAME = re.compile("[a-z0-9-]+")
_UNFIT = re.compile("[^a-z0-9 -]")
_GAP = re.compile("[ -]+")
# Letters that are no letter with an accent, and so do not come apart.
_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
_SPELLED = str.maketrans(_LETTERS)


def problem_of(name: str) -> str:
    """Return what is wrong with a name, as one sentence; empty where a spec may have it.

    A name is made of a-z, 0-9 and hyphens (SPEC-002), begins with a letter or a digit, since what
    begins with a hyphen is an option to the commands of a shell, and has 64 characters at most.
    """
    if not name:
        return "the spec name is empty: use a-z, 0-9 and hyphens"
    shown = one_line(name[:LONGEST]) + ("…" if len(name) > LONGEST else "")
    if not _NAME.fullmatch(name):
        fitting = name_from_goal(name)
        hint = f', such as "{fitting}"' if fitting else ""
        return f'invalid spec name "{shown}": use only a-z, 0-9 and hyphens{hint}'
    if len(name) > LONGEST:
        return f'the spec name "{shown}" has {len(name)} characters: use at most {LONGEST}'
    if name.startswith("-"):
        fitting = name.strip("-")
        hint = f', such as "{fitting}"' if fitting else ""
        return f'invalid spec name "{shown}": start with a letter or a digit{hint}'
    return ""


def name_from_goal(goal: str) -> str:
    """Return the name of a spec with this goal: its first words in small letters, with hyphens.

    Letters lose their accents, all else that no name may hold is left out. At most 50 characters,
    cut between two words where it can be; empty where nothing is left.
    """
    import unicodedata

    letters = goal.strip()[:_READ].casefold().translate(_SPELLED)
    apart = unicodedata.normalize("NFKD", letters)
    dashed = ("-" if unicodedata.category(letter) == "Pd" else letter for letter in apart)
    plain = "".join(" " if letter.isspace() else letter for letter in dashed)
    words = _GAP.sub("-", _UNFIT.sub("", plain)).strip("-")
    if len(words) > LONGEST_FROM_GOAL:
        whole, _, _ = words[: LONGEST_FROM_GOAL + 1].rpartition("-")
        words = whole or words[:LONGEST_FROM_GOAL]
    return words


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or where it is taken, the first free one of `name-2`, `name-3` and so on.

    At most 64 characters: of a long name, the end gives way to the number.
    """
    free, number = name, 1
    while free in taken:
        number += 1
        free = name[: LONGEST - len(f"-{number}")].rstrip("-") + f"-{number}"
    return free
