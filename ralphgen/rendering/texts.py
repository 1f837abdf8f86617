"""Texts that ship with a package and are copied unchanged."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable


@cache
def package_texts(package: str, folder: str) -> Mapping[str, str]:
    """Return the text of each file below a folder of a package, by path there, sorted."""
    return dict(sorted(_texts(resources.files(package).joinpath(folder), "")))


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        else:
            yield path + entry.name, entry.read_text(encoding="utf-8")
