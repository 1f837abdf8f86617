"""The workers of a loop: threads that do one session after the other until it is over."""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from ralphgen.errors import ProgramError, RalphgenError, UsageError
from ralphgen.loop.limits import STUCK_CODE, StopReason
from ralphgen.loop.run import CLOSED, Assignment, Run
from ralphgen.sessions.claims import NothingReadyError


@dataclass(frozen=True, slots=True)
class Result:
    """How a session ended: `task` is None where it had none, `cost` where it does not say.

    `error` is why no further session can be done or merged, None as long as one can.
    """

    task: int | None
    outcome: str
    cost: float | None
    error: RalphgenError | None = None


class PushRefusedError(RalphgenError):
    """The remote takes no work, so that no session is worth its cost (exit code 5)."""

    exit_code = STUCK_CODE


class Workplace(Protocol):
    """Where sessions are made and agents work.

    `recorded` are the files that agents follow or run, and that a task has changed.
    """

    recorded: list[str]

    def merges(self, worker: int, /) -> list[tuple[int, str]]:
        """Make the merges that had to wait; return what came of each task for which one was."""

    def left_for_user(self) -> Collection[int]:
        """Return the tasks that this loop has blocked, and those whose merge is pending."""

    def is_away(self) -> bool:
        """Return whether the database cannot be reached now."""

    def disk_fault(self, error: RalphgenError, /) -> ProgramError | None:
        """Return the error of a full disk if that can be why a session was broken off."""

    def session(self, job: Assignment, worker: int) -> Result:
        """Do one session; raise `NothingReadyError` where there is no task for it."""


def start_workers(run: Run, site: Workplace) -> list[threading.Thread]:
    """Start the workers of a run, which end by themselves when it is over."""
    threads = [
        threading.Thread(target=_work, args=(run, site, number), daemon=True)
        for number in range(1, run.limits.parallel + 1)
    ]
    for thread in threads:
        thread.start()
    return threads


def _work(run: Run, site: Workplace, worker: int) -> None:
    while (job := run.next_job()) is not None:
        try:
            for task, outcome in site.merges(worker):
                run.merged(task, outcome)
            result = site.session(job, worker)
        except NothingReadyError:
            run.nothing_ready(job)
        except (ProgramError, PushRefusedError, UsageError) as error:  # no pause makes it better
            run.stop(StopReason(str(error), error.exit_code))
            run.troubled(job, error)
        except RalphgenError as error:
            if site.is_away():
                run.away(job)
                continue
            if (full := site.disk_fault(error)) is not None:
                run.stop(StopReason(str(full), full.exit_code))
            run.troubled(job, error)
        except OSError as error:  # such as of a full disk
            fault = ProgramError(f"cannot continue: {error}")
            run.stop(StopReason(str(fault), fault.exit_code))
            run.troubled(job, fault)
        except BaseException as error:
            run.stop(StopReason(f"cannot continue: {type(error).__name__}: {error}", 1))
            raise
        else:
            if result.error is not None:
                run.stop(StopReason(str(result.error), result.error.exit_code))
            cut_off = result.outcome not in CLOSED and site.is_away()  # that is not the task's
            run.ended(job, None if cut_off else result.task, result.outcome, result.cost)
            if cut_off:
                run.away()
