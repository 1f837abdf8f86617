"""Shows the files of a spec in an answer: each in a fence, and cut where it is too long."""

from __future__ import annotations

import re

from .documents import PROGRESS
from .state import PHASES
from .status import ARTIFACTS
from .store import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .workspace import Specum

LEAST = 400  # of a file, however long the others are
RULE = "\n\n---\n\n"
FENCE = 4  # backticks at least
LONGEST_RUN = 80  # of backticks: before a longer one, a file is cut
RUN = re.compile("`+")
MISSING = "(missing: continue without it, and mention that in your text)"


def context(specum: Specum, name: str, phase: str, room: int) -> str:
    """Return the progress file and the artifacts of the phases before, in `room` characters.

    The artifact of the phase right before is named where it is missing.
    """
    earlier = ARTIFACTS[: PHASES.index(phase)]
    parts: list[tuple[str, str]] = []
    for file in (PROGRESS, *earlier):
        text = (specum.specs.read(name, file) or "").strip()
        if text:
            parts.append((file, text))
        elif file in (PROGRESS, *earlier[-1:]):
            parts.append((file, MISSING))
    return joined(parts, f"{FOLDER}/{name}", room)


def fenced(text: str) -> str:
    """Return a text in a fence that nothing in it ends: no line of it is a heading outside."""
    fence = "`" * max(FENCE, 1 + max(map(len, RUN.findall(text)), default=0))
    return f"{fence}markdown\n{text}\n{fence}"


def joined(parts: Sequence[tuple[str, str]], folder: str, room: int) -> str:
    """Return files one below the other, each in a fence; the longest are cut until all fit.

    A cut names the file.
    """
    room -= sum(len(file) + len(RULE) + 80 + len(folder) + len(file) for file, _ in parts)
    room -= sum(len(fenced(_tame(text))) - len(_tame(text)) for _, text in parts)
    share = _share([len(text) for _, text in parts], room)
    return RULE.join(
        f"#### {file}\n\n{cut(text, share, f'{folder}/{file}')}" for file, text in parts
    )


def _share(lengths: list[int], room: int) -> int:
    """Return the most characters that each may have, so that all of them have `room` at most."""
    left, share = room, 0
    for at, length in enumerate(sorted(lengths)):
        share = max(left // (len(lengths) - at), LEAST)
        left -= min(length, share)
    return share


def cut(text: str, most: int, path: str) -> str:
    """Return a text in a fence, at most so much of it; a cut names the file that has the rest."""
    if text == MISSING:
        return text
    shown = _tame(text if len(text) <= most else text[:most].rstrip())
    rest = "" if shown == text else f"\n\n[cut here: read the rest in `{path}`]"
    return fenced(shown) + rest


def _tame(text: str) -> str:
    """Return the text up to the first run of backticks that would need too long a fence."""
    end = text.find("`" * (LONGEST_RUN + 1))
    return text if end < 0 else text[:end].rstrip()
