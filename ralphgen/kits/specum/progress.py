"""The progress of a project's specs for the user; reads their files without changing them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.kits.specum.server.specs import FILE, TASKS, State, parse_tasks, read_state
from ralphgen.kits.specum.server.store import Specs
from ralphgen.runtime.errors import ToolError

COMPLETED = "completed"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SpecProgress:
    """A spec: its `phase`, completed or unknown, and the number of its ticked tasks.

    `approval` is true if the user must approve the phase. `problem` explains why the spec cannot be
    read, or is empty.
    """

    name: str
    phase: str
    done: int
    total: int
    current: bool
    approval: bool
    problem: str


def spec_progress(root: Path, settings: Mapping[str, Any]) -> tuple[SpecProgress, ...]:
    """Return the specs of the project in `root` by name, given the kit's settings.

    Raises `ToolError` if their folder cannot be read.
    """
    specs = Specs(str(root / str(settings["root"])), str(root))
    current = specs.current()
    return tuple(_progress(specs, name, name == current) for name in specs.names())


def spec_files(root: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders that determine the progress of specs, if they are readable.

    They need not exist.
    """
    with suppress(OSError, ToolError):
        folder = Path(Specs(str(root / str(settings["root"])), str(root)).home)
        yield folder
        for entry in sorted(folder.iterdir()):
            yield from (entry, entry / FILE, entry / TASKS)


def _progress(specs: Specs, name: str, current: bool) -> SpecProgress:
    try:
        state = read_state(specs, name)
        tasks = parse_tasks((specs.read_bytes(name, TASKS) or b"").decode("utf-8", "replace"))
    except ToolError as error:
        return SpecProgress(name, UNKNOWN, 0, 0, current, False, str(error))
    done = sum(task.done for task in tasks)
    counted = (done, len(tasks), current)
    if isinstance(state, State):
        waits = state.fields.get("awaitingApproval") is True
        return SpecProgress(name, state.phase, *counted, waits, "")
    if state is not None:
        return SpecProgress(name, UNKNOWN, *counted, False, state.reason)
    phase = COMPLETED if tasks and done == len(tasks) else UNKNOWN
    problem = "" if phase == COMPLETED else "the spec has no state"
    return SpecProgress(name, phase, *counted, False, problem)
