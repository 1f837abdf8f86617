"""Reports the records that an import leaves out."""

from collections.abc import Sequence

from ralphgen.errors import Problem, ProjectError, RalphgenError, Say, plain
from ralphgen.suggestion import counted

SHOWN = 20  # records in a message
HINT = "fix these records, or import the others without --strict"


def refusal_of(left_out: Sequence[str], hint: str = HINT) -> RalphgenError:
    """Return the error that names the records in their order, and changes nothing."""
    further = len(left_out) - SHOWN
    more = [counted(further, "further unreadable record")] * (further > 0)
    *others, last = [*left_out[:SHOWN], *more]
    error = ProjectError(last)
    error.problems = (*map(Problem, others), Problem(last, hint))
    return error


def report_left_out(left_out: Sequence[str], say: Say) -> None:
    """Name the records, and count them."""
    for line in left_out:
        say(f"left out {plain(line)}")
    if left_out:
        count = len(left_out)
        say(f"warning: left out {count:,} unreadable {'record' if count == 1 else 'records'}")
