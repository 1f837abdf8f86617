"""The commands `loop`, which works on tasks until none is ready, and `notify`."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from errno import EIO, EPIPE
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.cli.completion import complete_agents
from ralphgen.errors import ProjectError, RalphgenError, Say, UsageError, plain
from ralphgen.loop.run import LEAST_COST, MOST_PARALLEL
from ralphgen.terminal.app import App, Project, Quiet, Sandboxed, TrustEdited
from ralphgen.terminal.console import drop_output, print_json, progress, say

if TYPE_CHECKING:
    from ralphgen.agents.sandbox import Sandbox
    from ralphgen.loop.conduct import PreparedLoop, Show, Telling
    from ralphgen.loop.run import Event, Limits
    from ralphgen.project.config import Config
    from ralphgen.project.root import ProjectPlace


app = App()


loops = App(name="loop")
app.add_typer(loops)

SIGPIPE = 13  # its number everywhere; Windows has no name for it
SHOWN = 10  # tasks of a dry run, where nothing says how many
Parallel = Annotated[
    int,
    typer.Option(
        min=1, max=MOST_PARALLEL, metavar="N", help="Number of agents to run in parallel."
    ),
]
MaxTasks = Annotated[
    int | None, typer.Option(min=1, metavar="M", help="Stop after this many sessions.")
]
MaxCost = Annotated[
    float | None, typer.Option(min=LEAST_COST, metavar="USD", help="Stop after spending this much.")
]
MaxTime = Annotated[
    str, typer.Option(metavar="TIME", help="Stop after this time, such as 30s, 10m or 4h.")
]
Until = Annotated[
    str, typer.Option(metavar="HH:MM", help="Stop at this local time, such as 07:00.")
]
MaxTaskCost = Annotated[
    float | None,
    typer.Option(min=LEAST_COST, metavar="USD", help="Block a task that has cost this much."),
]
AgentNames = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAMES",
        help="Agents by preference, such as claude,codex.",
        autocompletion=complete_agents,
    ),
]
ReviewEvery = Annotated[
    int | None, typer.Option(min=1, metavar="K", help="Run a review session after every K tasks.")
]
Worktrees = Annotated[
    bool,
    typer.Option("--worktrees", help="Use a git worktree per agent and merge work that passes."),
]
Onto = Annotated[
    str, typer.Option(metavar="BRANCH", help="Merge into this branch; create it if missing.")
]
AllowFailingBase = Annotated[
    bool,
    typer.Option("--allow-failing-base", help="Start tasks even if a check fails on the branch."),
]
ServerUrl = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        help="Take tasks from this server, as a worker without the database.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List ready tasks; start no agents.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print events as JSON Lines.")]


@loops.callback(invoke_without_command=True, epilog="ralphgen loop --max-time 8h --max-cost 20")
def loop(
    context: typer.Context,
    parallel: Parallel = 1,
    max_tasks: MaxTasks = None,
    max_cost: MaxCost = None,
    max_task_cost: MaxTaskCost = None,
    max_time: MaxTime = "",
    until: Until = "",
    review_every: ReviewEvery = None,
    worktrees: Worktrees = False,
    onto: Onto = "",
    allow_failing_base: AllowFailingBase = False,
    server: ServerUrl = "",
    agent: AgentNames = "claude",
    sandbox: Sandboxed = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Run agents on ready tasks until none are left.

    Exits with 0 if no task is ready, with 5 if tasks or branches need your attention, and with 7
    at a limit. Ctrl-C waits for the running sessions; a second Ctrl-C stops them.
    """
    from ralphgen.agents.sandbox import open_sandbox
    from ralphgen.emit import warn_if_outdated
    from ralphgen.kits.project import Project as Inspected
    from ralphgen.loop.conduct import prepare_loop
    from ralphgen.loop.run import Limits, parse_duration, parse_until
    from ralphgen.project.database import shared_connections, without_database
    from ralphgen.project.root import project_place
    from ralphgen.terminal.console import refuse_agents

    if context.invoked_subcommand:
        return
    refuse_agents("loop")
    place = project_place(project)
    _refuse_other_tree(place)
    limits = Limits(
        parallel=parallel,
        max_tasks=max_tasks,
        max_cost=max_cost,
        max_task_cost=max_task_cost,
        max_seconds=parse_duration(max_time) if max_time else None,
        until=parse_until(until, time.time()) if until else None,
        review_every=review_every,
    )
    options = _loop_options(limits, max_time, until, agent, worktrees=worktrees, onto=onto)
    options |= {"sandbox": sandbox}
    inspected = Inspected(place.root)
    if server:
        from ralphgen.loop.remote import prepare_remote

        contained = sandbox or inspected.settings.sandbox.use
        _refuse_with_server(
            onto=onto, allow_failing_base=allow_failing_base, sandbox=contained, dry_run=dry_run
        )
        with without_database():
            remote = prepare_remote(inspected, limits, agent, server, worktrees=worktrees)
            raise typer.Exit(_looped(remote, options, as_json=as_json, tell=progress(quiet)))
    warn_if_outdated(place.root, say, names_columns=False, dry_run=dry_run)
    prepared = prepare_loop(
        inspected,
        limits,
        agent,
        worktrees=worktrees,
        trust_edited=trust_edited,
        allow_failing_base=allow_failing_base,
        onto=onto,
    )
    with open_sandbox(inspected, say, asked=sandbox) as around:
        if dry_run:
            if around is not None:
                _print_absent_programs(around, prepared, inspected.settings)
            _show_first(prepared, as_json=as_json)
            return
        with shared_connections(place.root):
            raise typer.Exit(_looped(prepared, options, as_json=as_json, tell=progress(quiet)))


def _print_absent_programs(sandbox: "Sandbox", prepared: "PreparedLoop", config: "Config") -> None:
    """Print the programs that are missing in the sandbox, with the line that adds each."""
    programs = [agent.program for agent in prepared.agents]
    programs += [check.run[0] for check in config.done.checks if check.run]
    programs += [command[0] for command in config.loop.setup]
    for name, line in sandbox.absent_programs(programs):
        say(plain(f'missing in the sandbox: "{name}"; {line}'))


def _add_control(name: str, about: str) -> None:
    """Add a command that controls the loops of a project on this machine."""

    @loops.command(name, help=about, example=f"ralphgen loop {name}")
    def control(project: Project = Path()) -> None:
        from ralphgen.loop.record import ask_loops
        from ralphgen.project.root import project_root
        from ralphgen.terminal.console import refuse_agents

        refuse_agents(f"loop {name}")
        for loop_id in ask_loops(project_root(project), name):
            print(f"sent {name} to {loop_id}")


_add_control("pause", "Start no more sessions until resume.")
_add_control("resume", "Resume a paused loop.")
_add_control("stop", "Stop when the running sessions end, like Ctrl-C.")
_add_control("stop-now", "Stop the sessions and release their tasks.")


def _refuse_other_tree(place: "ProjectPlace") -> None:
    """Raise `ProjectError` if the settings are those of another worktree and branch."""
    from ralphgen.project.git import branch_in

    if place.root != place.work_tree:
        here, there = (branch_in(one) or "no branch" for one in (place.work_tree, place.root))
        raise ProjectError(
            f'"{place.work_tree}" is on "{here}" and has no settings of the project: those are in '
            f'"{place.root}", which is on "{there}"',
            f'run it in "{place.root}", or commit .ralph on "{here}"',
        )


def _refuse_with_server(
    *, onto: str, allow_failing_base: bool, sandbox: bool, dry_run: bool
) -> None:
    """Raise `UsageError` for an option that a worker without the database does not have."""
    from ralphgen.errors import UsageError

    options = {
        "--onto": onto,
        "--allow-failing-base": allow_failing_base,
        "--sandbox": sandbox,
        "--dry-run": dry_run,
    }
    for option, value in options.items():
        if value:
            raise UsageError(f'"{option}" and "--server" cannot be combined', f"remove {option}")


def _loop_options(
    limits: "Limits", max_time: str, until: str, agent: str, *, worktrees: bool, onto: str
) -> dict[str, object]:
    """Return the options, by which the same loop can be started again."""
    return {
        "agent": agent,
        "parallel": limits.parallel,
        "max_tasks": limits.max_tasks,
        "max_cost": limits.max_cost,
        "max_task_cost": limits.max_task_cost,
        "max_time": max_time,
        "until": until,
        "review_every": limits.review_every,
        "worktrees": worktrees,
        "onto": onto,
    }


def _show_first(prepared: "PreparedLoop", *, as_json: bool) -> None:
    """Print the branch that it would work on, and the tasks that it would begin with, in order."""
    from ralphgen.loop.run import event_lines
    from ralphgen.project.schema import open_rows

    target = prepared.site.target()

    shown = prepared.ready[: prepared.limits.max_tasks or SHOWN]
    with open_rows(prepared.root) as rows:
        titles = {task: dict(rows.titles(str(task), 1)).get(task, "") for task in shown}
    if as_json:
        tasks = [{"id": task, "title": title} for task, title in titles.items()]
        name = ",".join(agent.name for agent in prepared.agents)
        facts = {"branch": target["branch"], "folder": target["folder"]}
        print_json({"agent": name, **facts, "ready": len(prepared.ready), "tasks": tasks})
        return
    for line in event_lines(target):
        say(line)
    for task, title in titles.items():
        print(plain(f"{task}  {title}"))
    if not titles:
        say("no task is ready")
        return
    say(f"{len(prepared.ready)} ready; {prepared.agents[0].title} would start with these")


def _looped(
    prepared: "PreparedLoop", options: Mapping[str, object], *, as_json: bool, tell: Say
) -> int:
    """Run the loop, show what happens, keep it for others to see, and return the exit code."""
    from ralphgen.agents.launch import find_program
    from ralphgen.agents.sandbox import current_sandbox
    from ralphgen.exchange.branch import keep_rows
    from ralphgen.kits.registry import read_settings
    from ralphgen.ledger.backup import backed_up
    from ralphgen.loop.conduct import conduct
    from ralphgen.loop.notify import Notifier
    from ralphgen.loop.record import recorded_loop
    from ralphgen.loop.run import FREQUENT, Run, event
    from ralphgen.sessions.store import CONTAINED, NOT_CONTAINED

    root, limits, telling = prepared.root, prepared.limits, prepared.telling
    events: list[Event] = []
    config = read_settings(root).notify
    notifier = Notifier(root, config, lambda text: telling.tell(event("note", worker=0, text=text)))
    prepared = _trusted(prepared, tell)
    for agent in prepared.agents:
        find_program(agent)  # before a task is claimed for nothing
    with (
        recorded_loop(root, options) as record,
        _view(prepared, as_json=as_json, tell=tell) as view,
        notifier,
    ):
        shown = _as_long_as_it_can(view, telling)

        def show(told: "Event | None") -> None:
            record.write(told)
            if told is not None and told["event"] not in FREQUENT:
                events.append(told)
                notifier.take(told)
            if as_json or told is None or told["event"] != "stop":
                shown(told)

        show(prepared.site.target())
        tell(CONTAINED if current_sandbox() is not None else NOT_CONTAINED)
        lacks = [f"note: {one}" for agent in prepared.agents for one in agent.lacks]
        for note in (*lacks, *prepared.site.notes()):
            show(event("note", worker=0, text=note))
        prepared.site.begin(prepared.ready)
        if prepared.ready and not prepared.is_remote:
            show(event("backup", text=backed_up(root)))
        names = [agent.name for agent in prepared.agents]
        facts = {"agent": ",".join(names), "workers": limits.parallel}
        ready = None if prepared.is_remote else len(prepared.ready)  # only the server counts them
        show(event("begin", **facts, ready=ready))
        run = Run(limits, names, tell=telling.tell)
        stop = conduct(run, prepared.site, telling, prepared.stop_now, show, record.new_requests)
        keep_rows(root, tell, syncs=read_settings(root).loop.remote is not None)
        notifier.wait()
        while isinstance(failed := telling.next(0), dict):
            show(failed)
        delivery = _delivery(prepared, events, record.report, tell)
    if not as_json:
        summarize = _show_stop if prepared.is_remote else partial(_summarize, root)
        _as_long_as_it_can(lambda _: summarize(events, tell), telling)(None)
        for line in delivery:
            tell(line)
    return stop.exit_code


def _trusted(prepared: "PreparedLoop", tell: Say) -> "PreparedLoop":
    """Ask for trust, again after a sync of rows; return the loop with the tasks that are ready."""
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import require_trust
    from ralphgen.exchange.branch import keep_rows
    from ralphgen.kits.registry import read_settings
    from ralphgen.loop.site import ProjectWorkplace

    root, site, items = prepared.root, prepared.site, prepared.site.trust_items
    has_rows = not prepared.is_remote
    if warning := require_trust(
        root, items(), confirm_trust, is_whole=True, needs_database=has_rows
    ):
        tell(warning)
    settings = read_settings(root)
    shares = settings.loop.remote is not None and settings.git.rows is not None
    if not shares or not isinstance(site, ProjectWorkplace):
        return prepared
    keep_rows(root, tell, syncs=True)
    require_trust(root, items(), confirm_trust, is_whole=True)
    return replace(prepared, ready=tuple(site.next_tasks()))


def _delivery(
    prepared: "PreparedLoop", events: "Sequence[Event]", report: Path, tell: Say
) -> list[str]:
    """Write the report of a loop that merges; return the lines that name what to do with it."""
    from ralphgen.loop.report import delivery_lines, write_report

    if not prepared.merges:
        return []
    try:
        write_report(prepared.root, events, report)
        return [*delivery_lines(prepared.root, prepared.onto, report)]
    except RalphgenError as error:
        tell(f"warning: no report: {error.problems[0].text}")
        return []


def _summarize(root: Path, events: "Sequence[Event]", tell: Say) -> None:
    """Print the summary of a loop that has ended; only its reason if there is no database."""
    from ralphgen.loop.run import event_lines
    from ralphgen.loop.summary import summarize, summary_lines

    try:
        lines = [*summary_lines(summarize(root, events))]
    except ProjectError as error:
        stop = next(one for one in reversed(events) if one["event"] == "stop")
        lines = [*event_lines(stop), f"warning: no summary: {error.problems[0].text}"]
    for line in lines:
        tell(line)


def _show_stop(events: "Sequence[Event]", tell: Say) -> None:
    """Print why a loop has ended."""
    from ralphgen.loop.run import event_lines

    for line in event_lines(events[-1]):
        tell(line)


def _as_long_as_it_can(show: "Show", telling: "Telling") -> "Show":
    """Return a function that shows events and survives failures of the output.

    The loop continues without its terminal or with a full disk. A closed pipe stops it, as it ends
    other programs.
    """

    def print_line(told: "Event | None") -> None:
        try:
            show(told)
        except OSError as error:
            if error.errno in (EIO, EPIPE):
                drop_output()
            if error.errno == EPIPE:
                telling.signalled(SIGPIPE)

    return print_line


@contextmanager
def _view(prepared: "PreparedLoop", *, as_json: bool, tell: Say) -> Iterator["Show"]:
    """Yield the function that shows events: as JSON, in a live view, or as lines of text."""
    from ralphgen.loop.run import event_lines

    if as_json:
        yield _print_event
    elif os.isatty(2) and tell is say:
        from ralphgen.cli.loop_view import LiveView

        with LiveView(prepared.site.counts) as view:
            yield view.show
    else:

        def show(told: "Event | None") -> None:
            for line in event_lines(told) if told is not None else ():
                tell(line)

        yield show


def _print_event(told: "Event | None") -> None:
    from ralphgen.loop.run import FREQUENT

    if told is not None and told["event"] not in FREQUENT:
        print(json.dumps(told), flush=True)


@app.command(example='ralphgen notify "the backup is done"')
def notify(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, one line.")],
    project: Project = Path(),
) -> None:
    """Send a line of text to your phone or chat.

    It goes where [notify] of the settings sends it, cut after 200 characters. Exits with 1 if the
    line was not sent.
    """
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import notify_items, require_trust
    from ralphgen.kits.registry import read_settings
    from ralphgen.loop.notify import address, one_line, send
    from ralphgen.project.root import CONFIG, project_root
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("notify")
    root = project_root(project)
    config = read_settings(root).notify
    if not (line := one_line(text)):
        raise UsageError("the text is empty", 'pass a text, such as "the night is over"')
    if not config.is_set:
        raise ProjectError(f"no [notify] in {CONFIG}", "set its command or its url_env")
    require_trust(root, notify_items(config), confirm_trust)
    send(root, config, address(config), line)
