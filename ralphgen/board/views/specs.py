"""The specs of a project that has the kit specum: how far each is."""

from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.board.changes import specum_settings
from ralphgen.board.stored_text import line
from ralphgen.kits.specum.progress import SpecProgress, spec_progress
from ralphgen.runtime.errors import ToolError

MOST_SPECS = 200


@dataclass(frozen=True, slots=True)
class SpecList:
    """The first specs of `total`, by name; `problem` says why there are none to be seen."""

    total: int
    rows: tuple[SpecProgress, ...]
    problem: str = ""


def read_specs(root: Path) -> SpecList | None:
    """Return the specs of the project in `root`; None where the kit is off."""
    settings = specum_settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return SpecList(0, (), line(error))
    shown = (replace(row, problem=line(row.problem)) for row in found[:MOST_SPECS])
    return SpecList(len(found), tuple(shown))
