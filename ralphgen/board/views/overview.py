"""What a person looks at first: what runs, what waits for them, what is ready, and today's cost."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ralphgen.board.views.sessions import SessionRow, read_sessions
from ralphgen.board.views.status import Status
from ralphgen.kits.ralph.rows import Rows
from ralphgen.ledger.records import spent_since
from ralphgen.ledger.tables import state_of
from ralphgen.project.connection import open_database


@dataclass(frozen=True, slots=True)
class Overview:
    """The work at one moment; `status` is None where the project has no tasks.

    `running` are the sessions with a server that runs. `begun` counts the agents' sessions on
    record that began today, in UTC, and `cost` is what those cost of which it is known; both are
    empty without a ledger.
    """

    status: Status | None
    running: tuple[SessionRow, ...]
    begun: int | None
    cost: str


def project_overview(root: Path, status: Status | None) -> Overview:
    """Return the overview of the project in `root`, which stands as `status` says.

    Raises `ProjectError` where the database or the folder of sessions cannot be read.
    """
    running = tuple(row for row in read_sessions(root) if row.running)
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return Overview(status, running, None, "")
        today = datetime.now(UTC).date().isoformat()
        begun, cost = spent_since(Rows(connection, {}), today)
    return Overview(status, running, begun, "" if cost is None else f"${cost:,.2f}")
