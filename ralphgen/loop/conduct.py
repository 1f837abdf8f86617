"""Prepares a loop, runs it from its first claim to its last event, and handles its signals."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Literal

from ralphgen.agents.adapters import find_agent
from ralphgen.agents.agent import Agent
from ralphgen.errors import UsageError
from ralphgen.kits.project import Project
from ralphgen.loop.run import (
    STUCK_CODE,
    Event,
    Limits,
    Run,
    StopReason,
    Workplace,
    event,
    start_workers,
)
from ralphgen.loop.site import ProjectWorkplace, TreeWorkplace
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import Config
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.claims import refuse_without_ledger
from ralphgen.sessions.decide import no_tasks
from ralphgen.spelling import toml_key

if TYPE_CHECKING:
    from ralphgen.loop.remote import RemoteWorkplace

FOREVER = float("inf")
PATIENCE = 20.0  # seconds for agents to stop; a longer merge is made the next time
TICK = 0.25  # seconds between updates of the display
AT_ONCE = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)
BY_SIGNAL = 128  # plus its number, as a shell has it

Ask = Literal["pause", "resume", "stop", "stop-now"]
"""Requests to a running loop; the last two work like Ctrl-C once and twice."""
Show = Callable[[Event | None], None]
"""Receives each event, and None after a while without one."""


class Telling:
    """Passes on events from any thread to the thread that shows them."""

    def __init__(self) -> None:
        self.interrupted = False  # the user has typed Ctrl-C
        self._queue: SimpleQueue[Event | int] = SimpleQueue()

    def tell(self, told: Event) -> None:
        """Take an event."""
        self._queue.put(told)

    def signalled(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal; a handler may do no more than this."""
        self._queue.put(number)

    def next(self, wait: float) -> Event | int | None:
        """Return the next event or signal; None where for so many seconds there is none."""
        try:
            return self._queue.get(wait > 0, wait or None)
        except Empty:
            return None


def conduct(
    run: Run,
    site: Workplace,
    telling: Telling,
    stop_now: threading.Event,
    show: Show,
    asked: Callable[[], Iterable[Ask]] = tuple,
) -> StopReason:
    """Run the loop until all of its workers have ended; return why it stopped.

    `asked` returns the new requests of other processes.

    After Ctrl-C no session starts, and running ones may finish. After a second one, and after any
    other terminating signal, `stop_now` is set: agents end immediately and release their tasks.
    """
    with _handled(telling):
        workers = start_workers(run, site)
        end = FOREVER
        while any(worker.is_alive() for worker in workers) and time.monotonic() < end:
            _take(telling.next(TICK), run, telling, stop_now, show)
            for ask in asked():
                _heed(ask, run, telling, stop_now, show)
            if stop_now.is_set():
                end = min(end, time.monotonic() + PATIENCE)
        while (told := telling.next(0)) is not None:
            _take(told, run, telling, stop_now, show)
    stop = run.stopped or StopReason("unknown reason", 1)
    totals = run.totals
    if stop.exit_code == 0 and site.tasks_for_user():
        stop = StopReason(stop.reason, STUCK_CODE, "needs_user")
    show(
        event(
            "stop",
            reason=stop.reason,
            exit_code=stop.exit_code,
            cause=stop.cause,
            outcomes=totals.outcomes,
            recorded=sorted({*site.recorded}),
            cost_usd=round(totals.cost, 6),
            known_usd=totals.costs.known,
            estimated_usd=totals.costs.estimated,
            cost_unknown=totals.costs.unknown,
            seconds=round(time.monotonic() - run.began, 3),
        )
    )
    return stop


def _take(
    told: Event | int | None, run: Run, telling: Telling, stop_now: threading.Event, show: Show
) -> None:
    if not isinstance(told, int):
        show(told)
        return
    run.stop(StopReason("interrupted", BY_SIGNAL + told, "interrupted"))
    if told != signal.SIGINT or telling.interrupted:
        stop_now.set()
        telling.tell(event("stopping", text="stopping: ending agents and releasing their tasks"))
    else:
        telling.interrupted = True
        text = "stopping after the running sessions; to stop now, press Ctrl-C again"
        telling.tell(event("stopping", text=text))


def _heed(ask: Ask, run: Run, telling: Telling, stop_now: threading.Event, show: Show) -> None:
    match ask:
        case "pause":
            run.hold(held=True)
            telling.tell(event("held", text="paused: running sessions continue, no new ones start"))
        case "resume":
            run.hold(held=False)
            telling.tell(event("resumed", text="resumed"))
        case "stop" if not telling.interrupted:
            _take(signal.SIGINT, run, telling, stop_now, show)
        case "stop-now":
            _take(signal.SIGTERM, run, telling, stop_now, show)


@contextmanager
def _handled(telling: Telling) -> Iterator[None]:
    """Handle signals as events; agents are in their own process groups and receive none of them.

    Signals that were ignored on purpose, as `nohup` does, remain ignored. An interrupt is always
    handled: shells make background programs ignore it, but nothing sends it there by accident.
    """
    taken = [one for one in AT_ONCE if signal.getsignal(one) is not signal.SIG_IGN]
    kept = {number: signal.signal(number, telling.signalled) for number in (signal.SIGINT, *taken)}
    try:
        yield
    finally:
        for number, former in kept.items():
            signal.signal(number, former)


@dataclass(frozen=True, slots=True)
class PreparedLoop:
    """A loop that is ready to start: its workplace, its agents by preference, and its limits.

    `ready` are the ready tasks, the next one first. `telling` receives the events, and `stop_now`
    ends all sessions. If it `merges`, agents work in worktrees; `onto` is the branch to merge into,
    empty for the branch that is checked out. A loop that `is_remote` has no database.
    """

    root: Path
    limits: Limits
    agents: tuple[Agent, ...]
    site: "ProjectWorkplace | RemoteWorkplace"
    ready: tuple[int, ...]
    telling: Telling
    stop_now: threading.Event
    merges: bool = False
    onto: str = ""
    is_remote: bool = False


def prepare_loop(
    project: Project,
    limits: Limits,
    agents: str,
    *,
    worktrees: bool,
    trust_edited: bool,
    allow_failing_base: bool = False,
    onto: str = "",
) -> PreparedLoop:
    """Return the loop that is asked for; nothing is claimed or written.

    `agents` are names, separated by commas, the preferred one first. The project's settings
    complete the limits. Raises `UsageError` for options that cannot be met, and `ProjectError` for
    a project that cannot have its tasks done so.
    """
    config = project.settings
    if project.serves_any_database:
        raise no_tasks(project.facts.kits)
    refuse_without_ledger(project.schema)
    if allow_failing_base and not worktrees:
        raise UsageError("--allow-failing-base requires --worktrees", "add --worktrees")
    if onto and not worktrees:
        raise UsageError("--onto requires --worktrees", "add --worktrees")
    found = find_agents(agents, config)
    refuse_limits(config, limits, found, worktrees=worktrees)
    telling, stop_now = Telling(), threading.Event()
    given = (project, found, telling.tell, stop_now)
    cost = limits.max_task_cost
    site = ProjectWorkplace(*given, trust_edited=trust_edited, max_task_cost=cost)
    if worktrees:
        workers = limits.parallel
        site = TreeWorkplace(
            *given,
            workers=workers,
            allow_failing_base=allow_failing_base,
            onto=onto,
            trust_edited=trust_edited,
            max_task_cost=cost,
        )
    settled = settle(limits, config)
    ready = tuple(site.next_tasks())
    return PreparedLoop(
        project.root, settled, found, site, ready, telling, stop_now, worktrees, onto
    )


def settle(limits: Limits, config: Config) -> Limits:
    """Return the limits with those of the project's settings."""
    return replace(
        limits,
        no_progress=config.loop.no_progress,
        timeout=config.loop.timeout,
        longest_wait=config.loop.longest_wait,
    )


def find_agents(names: str, config: Config) -> tuple[Agent, ...]:
    """Return the agents of these names; raise `UsageError` for an unknown or repeated one."""
    given = [name.strip() for name in names.split(",")]
    for name in given:
        if given.count(name) > 1:
            text = f'the agent "{one_line(name)}" is listed twice'
            raise UsageError(text, "list each agent once, the preferred one first")
    return tuple(find_agent(name, config) for name in given)


def refuse_limits(
    config: Config, limits: Limits, agents: tuple[Agent, ...], *, worktrees: bool
) -> None:
    """Raise `UsageError` for limits that cannot be met with these agents."""
    if limits.parallel > 1 and os.name == "nt":
        raise UsageError('"--parallel" is untested on Windows', "remove it")
    costs = {"--max-cost": limits.max_cost, "--max-task-cost": limits.max_task_cost}
    for option, cost in costs.items():
        if cost is not None and not math.isfinite(cost):
            raise UsageError(f'invalid amount for "{option}"', "use US dollars, such as 20 or 7.5")
        rates = config.launch.cost_per_hour
        silent = [one for one in agents if not one.reports_cost and one.name not in rates]
        if cost is not None and silent:
            text = f'"{option}" cannot be enforced: {silent[0].title} does not report its cost'
            line = f"[launch.cost_per_hour] {toml_key(silent[0].name)} = 6.0"
            raise UsageError(text, f"set its US dollars per hour in {CONFIG}: {line}")
    if limits.parallel > 1 and config.done.checks and not worktrees:
        text = "parallel agents cannot share a worktree: their edits invalidate the checks"
        raise UsageError(text, 'add "--worktrees", or remove "--parallel"')
