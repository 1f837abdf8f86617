"""Goldens: the output of a test against the files of a fixture, and their update.

Two fixtures hold their whole output. The others hold files that neither of the two has, and the
differences of the rest in a text next to them, `<place>.diff`:

    against a8
    === policy.py
    @@
     a line of a8 that is unchanged, only if the position needs it
    -a line of a8 that is removed, of whic…
    ~ lines more: 7
    +a line in their place
    === ralph/learnings.py is absent

A path that is in neither place is equal to that of a8. There are no line numbers, and lines of a8
are cut, so that a change that all fixtures share leaves the differences alone.
"""

import difflib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import FIXTURES

WHOLE = ("a8", "full")
"""The fixtures that others are compared with; the first that has the place is taken."""
FILE, ABSENT, HUNK, MORE = "=== ", " is absent", "@@", "~ lines more: "
WIDTH = 100
"""The columns of a golden in JSON."""
CUT, REST = 24, "…"
"""How much of a line of the other fixture is written, and the mark that there is more."""


class Goldens:
    """The files below `fixtures/`; `update` writes them before it compares."""

    def __init__(self, *, update: bool) -> None:
        self._update = update

    def check(self, place: str, found: Mapping[str, str]) -> None:
        """Compare texts by path in `place` with its files; "." is `place` itself.

        A failure shows the diff, the fixture and the command that updates it.
        """
        if self._update:
            write(place, found)
        if difference := _difference(golden(place), found):
            module = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
            update = f".venv/bin/python -m pytest {module} --update-goldens"
            path = os.path.normpath(f"fixtures/{place}")
            text = f"{difference}\n{path} differs from the output; to update: {update}"
            pytest.fail(text, pytrace=False)


def as_json(value: Any) -> str:
    """Return JSON in few lines, each with as many members as fit."""
    return "\n".join(_json_lines("", value, "")) + "\n"


def _json_lines(head: str, value: Any, indent: str) -> list[str]:
    """Return the lines of a value after `head`, its key, all of them indented."""
    line = f"{indent}{head}{json.dumps(value)}"
    if len(line) < WIDTH or not value or not isinstance(value, dict | list):
        return [line]
    members = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    lines: list[str] = []
    full = True
    for key, member in members:
        more = _json_lines(f"{json.dumps(key)}: " if key is not None else "", member, f"{indent} ")
        if not full and len(more) == 1 and len(lines[-1]) + len(more[0].strip()) < WIDTH - 2:
            lines[-1] += f", {more.pop().strip()}"
        elif lines:
            lines[-1] += ","
        full = len(more) > 1
        lines += more
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if head:
        lines.insert(0, f"{indent}{head}{opening}")
    else:
        lines[0] = f"{indent}{opening}{lines[0].strip()}"
    lines[-1] += closing
    return lines


def golden(place: str) -> dict[str, str]:
    """The texts of a place by path, whole: "a0/expected", or "a0/expected_tools.json" with "."."""
    own = _read_texts(FIXTURES / place)
    differences = FIXTURES / f"{place}.diff"
    if not differences.exists():
        return own
    base, *lines = differences.read_bytes().decode().removesuffix("\n").split("\n")
    _, _, rest = place.partition("/")
    texts = _read_texts(FIXTURES / base.removeprefix("against ") / rest)
    for head, *hunks in _sections(lines, FILE):
        path = head.removeprefix(FILE)
        if path.endswith(ABSENT):
            texts.pop(path.removesuffix(ABSENT), None)
        else:
            texts[path] = "\n".join(_applied(texts[path].split("\n"), hunks))
    return texts | own


def write(place: str, found: Mapping[str, str]) -> None:
    """Write the texts of a place: whole, or as differences from a fixture that has the place.

    A text is written whole if the differences are longer.
    """
    folder, differences = FIXTURES / place, FIXTURES / f"{place}.diff"
    assert not (folder / "project").exists(), f"{place} holds a project, which is no golden"
    shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
    folder.parent.mkdir(exist_ok=True)
    differences.unlink(missing_ok=True)
    whole, lines = dict(found), []
    case, _, rest = place.partition("/")
    others = [other for other in WHOLE if case not in WHOLE and (FIXTURES / other / rest).exists()]
    if rest and others:
        base = _read_texts(FIXTURES / others[0] / rest)
        lines = [f"against {others[0]}"]
        for name in sorted(base.keys() - found.keys()):
            lines.append(f"{FILE}{name}{ABSENT}")
        for name in sorted(base.keys() & found.keys()):
            new = found[name].split("\n")
            hunks = _hunks(base[name].split("\n"), new)
            if len(hunks) < len(new):
                del whole[name]
                lines += [f"{FILE}{name}", *hunks] if hunks else []
    if len(whole) < len(found):
        differences.write_bytes("".join(f"{line}\n" for line in lines).encode())
    for name, text in whole.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _hunks(old: list[str], new: list[str]) -> list[str]:
    """The lines that make `new` of `old`, each hunk with as much context as its place needs."""
    lines: list[str] = []
    end = 0
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, stop, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed = old[start:stop]
        more = [f"{MORE}{len(removed) - 1}"] if len(removed) > 2 else []
        removed = removed[:1] if more else removed
        begin = start
        while _position(old, before := _cut(old[begin:start] + removed), end) != begin:
            begin -= 1
        marks = [" "] * (start - begin) + ["-"] * len(removed)
        lines += [HUNK, *map("".join, zip(marks, before, strict=True)), *more]
        lines += [f"+{line}" for line in new[first:last]]
        end = stop
    return lines


def _applied(old: list[str], hunks: list[str]) -> list[str]:
    """The lines that hunks make of `old`; a hunk without a place fails the test."""
    new: list[str] = []
    end = 0
    for _, *hunk in _sections(hunks, HUNK):
        before = [line[1:] for line in hunk if line[0] in " -"]
        begin = _position(old, before, end)
        if begin is None:
            text = "\n".join(hunk)
            pytest.fail(f"the golden is out of date; no place for:\n{text}", pytrace=False)
        context = sum(line[0] == " " for line in hunk)
        new += [*old[end : begin + context], *(line[1:] for line in hunk if line[0] == "+")]
        more = sum(int(line.removeprefix(MORE)) for line in hunk if line.startswith(MORE))
        end = begin + len(before) + more
    return [*new, *old[end:]]


def _cut(lines: list[str]) -> list[str]:
    """Return the beginnings of lines: enough to find them, with few parts that may change."""
    ends = [len(line) - len(line.lstrip()) + CUT for line in lines]
    cut = [line[:end] for line, end in zip(lines, ends, strict=True)]
    return [text if text == line else text + REST for text, line in zip(cut, lines, strict=True)]


def _position(lines: list[str], part: list[str], start: int) -> int | None:
    """Return the first index from `start` of `part`, whose lines may be cut, in `lines`."""
    for position in range(start, len(lines) - len(part) + 1):
        if all(map(_is_line, part, lines[position:])):
            return position
    return None


def _is_line(text: str, line: str) -> bool:
    return text == line or (text.endswith(REST) and line.startswith(text.removesuffix(REST)))


def _sections(lines: list[str], mark: str) -> Iterator[list[str]]:
    """The parts of `lines`, each from a line with the mark to the next one."""
    starts = [number for number, line in enumerate(lines) if line.startswith(mark)]
    for start, stop in itertools.pairwise([*starts, len(lines)]):
        yield lines[start:stop]


def _read_texts(place: Path) -> dict[str, str]:
    files = [place] if place.is_file() else sorted(place.rglob("*"))
    return {
        path.relative_to(place).as_posix(): path.read_bytes().decode()
        for path in files
        if path.is_file()
    }


def _difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """A unified diff over all files; a file that is on one side alone is named even if empty."""
    lines = [f"only found: {name}\n" for name in sorted(found.keys() - expected.keys())]
    lines += [f"only expected: {name}\n" for name in sorted(expected.keys() - found.keys())]
    for name in sorted({*expected, *found}):
        before = expected.get(name, "").splitlines(keepends=True)
        after = found.get(name, "").splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, f"expected/{name}", f"found/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
