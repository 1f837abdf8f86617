"""What came of a launched session: the state of its task, a word for the record, an exit code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.sessions.model import PreparedSession

DONE, BLOCKED = "done", "blocked"
CLOSED = {DONE: 0, BLOCKED: 3, "skipped": 3}  # statuses of a task, with their exit codes
STOPPED, CLAIM_LOST = "stopped", "claim lost"
CLOSING_TOOL = "set_task_status"
REVIEW = "opus_review"  # may open a task again, which is its work and no failure
CLAIMED_CODE, OPEN_CODE, FAILED_CODE, SPENT_CODE = 4, 5, 6, 7
BY_SIGNAL = 128  # plus its number, as a shell has it


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent has used, as far as it says so; `cost` is in US dollars."""

    turns: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None


NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How an agent ended.

    `code` is its exit code, negative for a signal. `by_person` is the signal that the user sent, or
    0. `out_of_time` means that its time limit stopped it, `claim_lost` that its session lost the
    task, `silent` that it did not list its servers. The agent itself reports `out_of_budget` (turns
    or money), `rate_limited`, any other failure as `is_error`, and its `model`, empty if unknown.
    """

    code: int = 0
    by_person: int = 0
    out_of_time: bool = False
    claim_lost: bool = False
    silent: bool = False
    out_of_budget: bool = False
    rate_limited: bool = False
    is_error: bool = False
    model: str = ""
    usage: Usage = NOTHING_USED

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than it should."""
        return bool(self.code or self.silent or self.is_error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is recorded of a session, in a word or three, and the exit code of `launch`."""

    word: str
    exit_code: int


FAILED = Outcome("failed", FAILED_CODE)
RATE_LIMITED = Outcome("rate limited", FAILED_CODE)
BROKEN = Outcome("environment failed", FAILED_CODE)


def closes_task(session: PreparedSession) -> bool:
    """Return whether the session is there to close its task: it has one, and may call it done."""
    if session.task is None or session.profile == REVIEW:
        return False
    schemas = (
        tool.get("inputSchema", {})
        for served in session.served
        for tool in served.tools
        if tool["name"] == CLOSING_TOOL
    )
    return any(DONE in _statuses(schema) for schema in schemas)


def outcome_of(end: AgentEnd, status: str | None, *, closes: bool) -> Outcome:
    """Return what came of a session whose task has this status now; None where there is none."""
    if end.by_person:
        return Outcome(STOPPED, BY_SIGNAL + end.by_person)
    if closes and status in CLOSED:
        return Outcome(status, CLOSED[status])
    if end.claim_lost:
        return Outcome(CLAIM_LOST, CLAIMED_CODE)
    if end.rate_limited:  # also where its time was up while it waited for the model
        return RATE_LIMITED
    if end.out_of_time or end.out_of_budget:
        return Outcome("out of time" if end.out_of_time else "out of budget", SPENT_CODE)
    ended = Outcome("open", OPEN_CODE) if closes else Outcome("ended", 0)
    return FAILED if end.failed else ended


def _statuses(schema: Mapping[str, Any]) -> list[object]:
    found = schema.get("properties", {}).get("status", {}).get("enum")
    return found if isinstance(found, list) else []
