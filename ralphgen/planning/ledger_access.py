"""What logins of sessions may do with ralphgen's own tables."""

from collections.abc import Sequence

from ralphgen.planning.access import (
    CLAIMS,
    EVERY_ROW,
    LOGIN,
    Policies,
    SecuredTable,
    Use,
    conditions,
    secured,
)
from ralphgen.planning.roles import AGENTS

NOW = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
"""The moment as claims have it, in SQL."""
ENDING = "UPDATE (ended, outcome)"


def ledger_tables(schema: str, uses: Sequence[Use]) -> list[SecuredTable]:
    """Return ralphgen's own tables, which every session may read: of evidence nothing is written.

    The journal is neither read nor written, but by triggers. `uses` are those of all tools.
    """
    read = ("ralphgen_ledger", "ralphgen_evidence")
    own_session = "ralphgen_sessions.id = own.session"
    ended: Policies = {
        "SELECT": EVERY_ROW,
        "UPDATE": [
            ("USING", [own_session]),
            ("WITH CHECK", [f"{own_session} AND ralphgen_sessions.outcome = 'ended'"]),
        ],
    }
    ours = "ralphgen_claims.session = own.session AND ralphgen_claims.task_id = own.task_id"
    free = f"(ralphgen_claims.session IS NULL OR ralphgen_claims.expires < {NOW})"
    rows = conditions([use for use in uses if use.table == CLAIMS], "UPDATE")
    released = [f"{condition} AND ralphgen_claims.session IS NULL" for condition in rows]
    claims: Policies = {
        "SELECT": EVERY_ROW,
        "UPDATE": [
            ("USING", [ours, *(f"{condition} AND {free}" for condition in rows)]),
            ("WITH CHECK", [ours, *released]),
        ],
    }
    return [
        *(secured(schema, name, [("SELECT", [AGENTS])], {"SELECT": EVERY_ROW}) for name in read),
        secured(
            schema, "ralphgen_sessions", [(f"SELECT, {ENDING}", [AGENTS])], ended, writer=LOGIN
        ),
        secured(schema, CLAIMS, [("SELECT, UPDATE", [AGENTS])], claims, writer=LOGIN),
        *(secured(schema, name, [], {}) for name in ("ralphgen_journal", "ralphgen_unfinished")),
    ]
