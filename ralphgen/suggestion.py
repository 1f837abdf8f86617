"""The hint for a name that means nothing: the one that was meant, or all that there are."""

from collections.abc import Iterable

from ralphgen.runtime.errors import one_line
from ralphgen.runtime.values.nearest import nearest


def suggestion(name: str, known: Iterable[str], listed: str) -> str:
    """The nearest of the known names as a question, else all of them after `listed`, on one line.

    `listed` is what they are, such as "the kits".
    """
    names = list(known)
    near = nearest(name, names)
    if near:
        return f'did you mean "{one_line(near)}"?'
    return f"{listed} are {one_line(', '.join(names)) or 'none yet'}"
