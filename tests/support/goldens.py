"""Goldens: what a test found against what a fixture holds, and rewriting it."""

import difflib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import FIXTURES


class Goldens:
    """The files below `fixtures/`; they are written first where `update` says so."""

    def __init__(self, *, update: bool) -> None:
        self._update = update

    def check(self, place: str, found: Mapping[str, str]) -> None:
        """Compare texts by path in `place` with its files; "." is `place` itself.

        A failure shows the diff, the fixture and the command that updates it.
        """
        if self._update:
            _write(FIXTURES / place, found)
        if difference := _difference(_read(FIXTURES / place), found):
            module = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
            update = f".venv/bin/python -m pytest {module} --update-goldens"
            path = os.path.normpath(f"fixtures/{place}")
            text = f"{difference}\n{path} differs from the output; to update: {update}"
            pytest.fail(text, pytrace=False)


def _read(place: Path) -> dict[str, str]:
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    return {
        path.relative_to(place).as_posix(): path.read_bytes().decode()
        for path in files
        if path.is_file()
    }


def _write(place: Path, found: Mapping[str, str]) -> None:
    assert not (place / "project").exists(), f"{place} holds a project, which is no golden"
    if place.is_dir():
        shutil.rmtree(place)
    for name, text in found.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """A unified diff over all files; a file that is on one side alone is named even if empty."""
    lines = [f"only found: {name}\n" for name in sorted(found.keys() - expected.keys())]
    lines += [f"only expected: {name}\n" for name in sorted(expected.keys() - found.keys())]
    for name in sorted({*expected, *found}):
        before = expected.get(name, "").splitlines(keepends=True)
        after = found.get(name, "").splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, f"expected/{name}", f"found/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
