"""What `ralphgen check` says of the project: the files that differ, each with its diff."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ralphgen.emit import workflows
from ralphgen.emit.write import Drift
from ralphgen.errors import Problem, RalphgenError
from ralphgen.files import MANIFEST

Kind = Literal["edited", "stale", "missing", "leftover", "unknown"]
KINDS: tuple[Kind, ...] = ("edited", "stale", "missing", "leftover", "unknown")
"""By weight: a file of two kinds is shown as the first of them."""
UP_TO_DATE = "the server is up to date"
UNREADABLE = "the project cannot be read as it is"
WARNING = "warning: "


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file that is not as it would be generated now, with its own part of the unified diff.

    Of an unknown file there is none, nor of a missing one where there is no server at all. Those of
    all files, one behind the other, are otherwise the whole diff.
    """

    path: str
    kind: Kind
    diff: str


@dataclass(frozen=True, slots=True)
class Drifted:
    """What `ralphgen check` says: `problems` are why it can say nothing else, mostly none."""

    ok: bool
    summary: str
    hint: str = ""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[FileDiff, ...] = ()


def drift(root: Path) -> Drifted:
    """Return the difference between the server on disk and what would be written now."""
    said: list[str] = []
    try:
        report = workflows.checked(root, say=said.append)
    except RalphgenError as error:
        return Drifted(ok=False, summary=UNREADABLE, problems=error.problems)
    warnings = tuple(line.removeprefix(WARNING) for line in said)
    if not report.drift:
        return Drifted(ok=True, summary=UP_TO_DATE, warnings=warnings)
    files, summary = tuple(_files(report.drift)), report.summary()
    count = len(report.drift.missing)
    if MANIFEST in report.drift.missing and not report.drift.interrupted:
        summary = f"there is no server yet: {count} files would be written"
        files = tuple(replace(file, diff="") if file.kind == "missing" else file for file in files)
    return Drifted(False, summary, report.hint(), (), warnings, files)


def _files(found: Drift) -> Iterator[FileDiff]:
    """Yield the files that differ by path, also unknown modules, which have no diff."""
    kinds: dict[str, Kind] = {}
    for kind in reversed(KINDS):
        kinds |= dict.fromkeys(getattr(found, kind), kind)
    for path in sorted(kinds):
        yield FileDiff(path, kinds[path], found.parts.get(path, ""))
