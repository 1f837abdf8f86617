"""Writes and checks `.ralph/mcp/`: init, regeneration, comparison, and trust in a project."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import RalphgenError, Say
from ralphgen.files import put
from ralphgen.project.root import FOLDER, RECIPES, project_home

NOTE = ".ralph/sessions/.settings"  # the stamps of settings that the server was seen to match
OUTDATED = 'the generated server is out of date: run "ralphgen regen"'


def warn_if_outdated(
    root: Path, say: Say, *, names_columns: bool = True, dry_run: bool = False
) -> None:
    """Print a warning if the generated server does not match settings or schema.

    If the caller `names_columns` that are new, a newer schema gets no second warning here, and the
    full comparison runs only after settings or server were written. A project that cannot be
    compared gets no warning: other commands name the problem. A dry run writes no note.
    """
    note, stamps = project_home(root) / NOTE, "\n".join(_stamps(root))
    with suppress(OSError, ValueError):
        if names_columns and note.read_text(encoding="ascii") == stamps:
            return
    from ralphgen.emit.workflows import checked

    with suppress(RalphgenError):
        report = checked(root, say=lambda _line: None)
        if report.server:
            if not (names_columns and report.lag.server):
                say(f"warning: {OUTDATED}")
        elif not dry_run:
            put(note, stamps)


def _stamps(root: Path) -> Iterator[str]:
    """Yield the time and size of the manifest and of each settings file."""
    recipes = sorted((root / RECIPES).glob("*.toml"))
    for path in (root / FOLDER / "manifest.json", root / ".ralph/ralphgen.toml", *recipes):
        with suppress(OSError):
            facts = path.stat()
            yield f"{facts.st_mtime_ns} {facts.st_size}"
