"""The specs of a project that has the kit specum: how far each is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ralphgen.board.views.stored_text import line
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.kits.specum.progress import SpecProgress, spec_files, spec_progress
from ralphgen.project.config import kit_settings, read_config
from ralphgen.project.inspect import settings_models
from ralphgen.runtime.errors import ToolError

KIT = "specum"
MOST = 200


@dataclass(frozen=True, slots=True)
class SpecList:
    """The first specs of `total`, by name; `problem` says why there are none to be seen."""

    total: int
    rows: tuple[SpecProgress, ...]
    problem: str = ""


def read_specs(root: Path) -> SpecList | None:
    """Return the specs of the project in `root`; None where the kit is off."""
    settings = _settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return SpecList(0, (), line(error))
    shown = (replace(row, problem=line(row.problem)) for row in found[:MOST])
    return SpecList(len(found), tuple(shown))


def files_of_specs(root: Path) -> Iterator[Path]:
    """Yield the files that `read_specs` tells of; none where the kit is off."""
    settings = _settings(root)
    if settings is not None:
        yield from spec_files(root, settings)


def _settings(root: Path) -> Mapping[str, Any] | None:
    """Return the settings of the kit; None where it is off, or the config cannot be read."""
    try:
        config = read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values
    except ProjectError:
        return None
    return kit_settings(config, KIT) if KIT in config.kits else None
