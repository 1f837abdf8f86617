"""Which sessions hold which tasks, as their claims say."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ralphgen.board.stored_text import line
from ralphgen.ledger.record import RecordReader
from ralphgen.project.database import Snapshot
from ralphgen.project.schema import column_names
from ralphgen.runtime.tasks.claims import COLUMNS, Claim, claims, is_live, is_over

MOST = 5_000
"""Claims that are looked at, those whose leases end last: one may ask the system for a process."""
FRACTION = re.compile(r"\.[0-9]{1,6}Z$")


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim that was not released: the task's last holder, `since` when and `until` when.

    `live` is whether it holds the task now, and `begun` whether it has set the task in_progress.
    """

    session: str
    since: str
    until: str
    live: bool
    begun: bool


def keeps_claims(connection: Snapshot) -> bool:
    """Return whether the database has the table of claims, as this version writes it."""
    return {*column_names(connection, "ralphgen_claims")}.issuperset(COLUMNS.split(", "))


def read_claims(reader: RecordReader) -> dict[int, Claim]:
    """Return the claims that were not released, by task; none where the database keeps none."""
    return claims(reader.connection, MOST) if keeps_claims(reader.connection) else {}


def holds_of(found: Mapping[int, Claim], *, anywhere: bool) -> dict[int, Hold]:
    """Return what claims come to now, by task.

    `anywhere` judges by the leases alone, which say the same on every machine.
    """
    return {
        task: Hold(
            session=line(claim.session),
            since=_to_the_second(claim.taken),
            until=_to_the_second(claim.expires),
            live=not is_over(claim) if anywhere else is_live(claim),
            begun=claim.began is not None,
        )
        for task, claim in found.items()
    }


def _to_the_second(stored: str | None) -> str:
    """Return a moment without the milliseconds that claims count."""
    return FRACTION.sub("Z", line(stored))


def liveness(found: Iterable[Claim]) -> tuple[bool, ...]:
    """Return which of some claims hold their tasks now."""
    return tuple(map(is_live, found))
