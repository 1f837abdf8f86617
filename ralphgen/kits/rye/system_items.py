"""The items that every project has: read from the package, copied into the emitted server."""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable


@cache
def system_items() -> dict[str, str]:
    """The text of each item by its path below the space, sorted."""
    return dict(sorted(_texts(resources.files("ralphgen.kits.rye").joinpath("system"), "")))


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        else:
            yield path + entry.name, entry.read_text(encoding="utf-8")
