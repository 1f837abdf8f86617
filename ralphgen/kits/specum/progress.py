"""How far the specs of a project are, for people: read from their files, nothing is moved."""

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
    """A spec: its `phase`, completed or unknown, and how many of its tasks are ticked.

    `approval` is whether a person has to agree before the next phase. `problem` says what cannot be
    read, and is else empty.
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

    Raises `ToolError` where their folder cannot be read.
    """
    specs = Specs(str(root / str(settings["root"])), str(root))
    current = specs.current()
    return tuple(_progress(specs, name, name == current) for name in specs.names())


def spec_files(root: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders by which the progress of specs is told, as far as one can look.

    They need not be there.
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
