"""What waits for a person besides blocked tasks: merges, a server out of date, bad disciplines."""

from dataclasses import dataclass
from pathlib import Path

from ralphgen.board.stored_text import line
from ralphgen.board.views.disciplines import read_disciplines
from ralphgen.board.views.drift import Drifted
from ralphgen.runtime.errors import one_line
from ralphgen.worktrees.record import unmerged

MOST = 20


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """A task that is done in a work tree, and not yet in the base branch."""

    task: int
    session: str
    worktree: str


@dataclass(frozen=True, slots=True)
class Attention:
    """What waits for a person.

    `drift` is the sentence on a server that is out of date, else empty. `merges` are the first of
    `merges_total`; `disciplines` are the first of `disciplines_total` with a value that no session
    can read, by name and what is wrong with it, and `config` says what is wrong with the config.
    """

    drift: str
    merges: tuple[PendingMerge, ...]
    merges_total: int
    disciplines: tuple[tuple[str, str], ...]
    disciplines_total: int
    config: tuple[str, ...]

    @property
    def total(self) -> int:
        """Return how many things wait."""
        return self.merges_total + self.disciplines_total + len(self.config) + bool(self.drift)


def what_waits(root: Path, drifted: Drifted, *, has_tasks: bool) -> Attention:
    """Return what waits for a person in the project in `root`, whose server differs as given.

    Raises `ProjectError` where the database cannot be read.
    """
    found = read_disciplines(root)
    merges = unmerged(root) if has_tasks else ()
    unreadable = [row for row in found.rows if row.problems]
    return Attention(
        drift="" if drifted.ok else line(drifted.summary),
        merges=tuple(
            PendingMerge(one.task, line(one.session_id), one_line(one.worktree.name))
            for one in merges[:MOST]
        ),
        merges_total=len(merges),
        disciplines=tuple(
            (row.name, "; ".join(problem.text for problem in row.problems))
            for row in unreadable[:MOST]
        ),
        disciplines_total=len(unreadable),
        config=tuple(problem.text for problem in found.problems),
    )
