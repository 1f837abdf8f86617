"""What a loop is held to, and with what it stops."""

import re
from dataclasses import dataclass

from ralphgen.errors import UsageError

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
BUDGET_CODE, STUCK_CODE = 7, 5
MOST_PARALLEL = 64  # agents at once
LEAST_COST = 0.01  # US dollars


@dataclass(frozen=True, slots=True)
class Limits:
    """What a person asks of a loop; None where nothing was said.

    `parallel` agents work at once. `max_cost` is in US dollars, `max_seconds` counts from the start
    of the loop, and after each `review_every` tasks that are done a review looks at them. The loop
    stops after `no_progress` different tasks in a row that nobody closed. A session ends after
    `timeout` seconds.
    """

    parallel: int = 1
    max_tasks: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    review_every: int | None = None
    no_progress: int = 3
    timeout: float = 1_800


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a loop begins nothing any more: a sentence, and the exit code of the command."""

    reason: str
    exit_code: int


NOTHING_READY = StopReason("no task is ready", 0)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30s, 10m or 4h; raise `UsageError` for no such."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f'invalid duration "{text}": use 30s, 10m or 4h')
    return float(int(found[1]) * UNITS[found[2]])


def spell_duration(seconds: float) -> str:
    """Return the shortest text that `parse_duration` reads as these seconds."""
    unit = next(unit for unit in reversed(UNITS) if seconds % UNITS[unit] == 0)
    return f"{seconds / UNITS[unit]:.0f}{unit}"
