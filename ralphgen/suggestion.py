"""The hint for an unknown name: the nearest known one, or all of them."""

from collections.abc import Iterable

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.values.arguments import nearest


def either(names: Iterable[str]) -> str:
    """Return at least one name as a choice: "a, b or c"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def suggestion(name: str, known: Iterable[str], listed: str) -> str:
    """Return the nearest known name as a question, else all of them after `listed`.

    `listed` is what they are, such as "the kits".
    """
    names = list(known)
    near = nearest(name, names)
    if near:
        return f'did you mean "{one_line(near)}"?'
    if not names:
        return f"there are no {listed.removeprefix('the ')} yet"
    return f"{listed} are {one_line(', '.join(names))}"
