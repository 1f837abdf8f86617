"""Prepares a loop: what has to be so before it claims its first task."""

import math
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.agents.agent import Agent
from ralphgen.agents.registry import find_agent
from ralphgen.errors import UsageError
from ralphgen.init.scaffold import any_database
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.loop.conduct import Telling
from ralphgen.loop.run import Limits
from ralphgen.loop.site import ProjectWorkplace
from ralphgen.loop.trees import TreeWorkplace
from ralphgen.project.config import Config
from ralphgen.project.inspect import inspect_project
from ralphgen.sessions.claims import refuse_without_ledger
from ralphgen.sessions.decide import no_tasks


@dataclass(frozen=True, slots=True)
class PreparedLoop:
    """A loop that can begin: where it works, who works in it, and within which limits.

    `ready` are the tasks that can be begun, the next one first. `telling` is told what happens, and
    `stop_now` ends all sessions.
    """

    root: Path
    limits: Limits
    agent: Agent
    site: ProjectWorkplace
    ready: tuple[int, ...]
    telling: Telling
    stop_now: threading.Event


def prepare_loop(
    root: Path,
    limits: Limits,
    agent: str,
    *,
    worktrees: bool,
    trust_edited: bool,
    allow_failing_base: bool = False,
) -> PreparedLoop:
    """Return the loop that is asked for; nothing is claimed or written.

    The project's settings complete the limits. Raises `UsageError` for options that cannot be met,
    and `ProjectError` for a project that cannot have its tasks done so.
    """
    project, config = inspect_project(root, KITS), read_settings(root)
    if any_database(project.kits):
        raise no_tasks(project.kits)
    refuse_without_ledger(project)
    if allow_failing_base and not worktrees:
        raise UsageError("--allow-failing-base requires --worktrees", "add --worktrees")
    found = find_agent(agent, config)
    _refuse(config, limits, found, worktrees=worktrees)
    telling, stop_now = Telling(), threading.Event()
    given = (root, project.schema, found, telling.tell, stop_now)
    site = ProjectWorkplace(*given, trust_edited=trust_edited)
    if worktrees:
        workers = limits.parallel
        site = TreeWorkplace(
            *given,
            config=config,
            workers=workers,
            allow_failing_base=allow_failing_base,
            trust_edited=trust_edited,
        )
    settled = replace(limits, no_progress=config.loop.no_progress, timeout=config.loop.timeout)
    return PreparedLoop(root, settled, found, site, tuple(site.next_tasks()), telling, stop_now)


def _refuse(config: Config, limits: Limits, agent: Agent, *, worktrees: bool) -> None:
    if limits.parallel > 1 and os.name == "nt":
        raise UsageError('"--parallel" is untested on Windows', "remove it")
    if limits.max_cost is not None and not math.isfinite(limits.max_cost):
        raise UsageError('invalid amount for "--max-cost"', "use US dollars, such as 20 or 7.5")
    if limits.max_cost is not None and not agent.reports_cost:
        text = f'"--max-cost" cannot be enforced: {agent.title} does not report its cost'
        raise UsageError(text, "limit it with --max-tasks or --max-time")
    if limits.parallel > 1 and config.done.checks and not worktrees:
        text = "parallel agents cannot share a worktree: their edits invalidate the checks"
        raise UsageError(text, 'add "--worktrees", or remove "--parallel"')
