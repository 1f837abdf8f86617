"""Hints for unknown names: the nearest known one, or a short list; and numbers with nouns."""

from collections.abc import Iterable

from ralphgen.runtime.errors import one_line

MOST = 5  # names in a hint, unless all are
SHORT = 50  # characters


def either(names: Iterable[str]) -> str:
    """Return at least one name as a choice: "a, b or c"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an "s" unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggestion(name: str, known: Iterable[str], listed: str, command: str = "") -> str:
    """Return the nearest known name as a question, else the known names after `listed`.

    `listed` is their noun, such as "the kits". Only the nearest of many names are listed, with the
    `command` that lists all.
    """
    from ralphgen.runtime.values import nearest

    names = list(known)
    near = nearest(name, names)
    if near:
        return f'did you mean "{one_line(near)}"?'
    article, _, noun = listed.partition(" ")
    if not names:
        return f"there are no {noun} yet"
    if len(names) == 1:
        return f"{article} only {noun.removesuffix('s')} is {one_line(names[0])}"
    every = one_line(", ".join(names))
    if len(names) <= MOST or len(every) <= SHORT:
        return f"{listed} are {every}"
    from difflib import SequenceMatcher

    close = sorted(names, key=lambda one: -SequenceMatcher(None, name, one).ratio())[:MOST]
    shown = one_line(", ".join(one for one in names if one in close))
    return f"{listed} include {shown}" + f'; "{command}" lists them' * bool(command)
