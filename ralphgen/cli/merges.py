"""`ralphgen merges`: the queue of work that waits to be merged."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.errors import MissingError, plain
from ralphgen.terminal.app import App, Json, Project, Quiet, TrustEdited
from ralphgen.terminal.console import print_json, progress, say

if TYPE_CHECKING:
    from ralphgen.runtime.tasks.merges import QueuedMerge

NEEDS_USER = 5
RUN_FACTS = (
    *("number", "batch", "target", "base", "head", "tree", "members", "started", "ended"),
    *("passed", "worker"),
)
PAUSE = 1.0  # seconds until the queue of another process is looked at again
app = App()
merges = App(name="merges")
app.add_typer(merges)


@merges.callback(invoke_without_command=True, epilog="ralphgen merges --json")
def listing(context: typer.Context, project: Project = Path(), as_json: Json = False) -> None:
    """List work that waits to be merged, and the run in progress."""
    from ralphgen.loop.merges import read_queue
    from ralphgen.project.root import project_root

    if context.invoked_subcommand:
        return
    entries, runs = read_queue(project_root(project), only_waiting=not as_json)
    if as_json:
        merges = [{name: getattr(one, name) for name in one.__slots__} for one in entries]
        facts = [{name: getattr(run, name) for name in RUN_FACTS} for run in runs]
        print_json({"merges": merges, "runs": facts})
        return
    for one in entries:
        what = "a branch" if one.task is None else f"task {one.task}"
        reason = f": {one.reason}" if one.reason else ""
        state = f'{one.state} for "{one.target}" since {one.entered}{reason}'
        print(plain(f"{one.number}  {what}  {state}"))
    for run in runs:
        if run.ended is None:
            what = "task" if len(run.members) == 1 else "tasks"
            print(plain(f"run {run.number}: {len(run.members)} {what} since {run.started}"))
    if not entries:
        say("no work waits to be merged")


@merges.command("run", example="ralphgen merges run")
def run_queue(
    project: Project = Path(), trust_edited: TrustEdited = False, quiet: Quiet = False
) -> None:
    """Merge everything that waits, without agents.

    Waits for another process that runs the queue. Exits with 0 if nothing is left, with 1 if the
    branch itself fails its checks, and with 5 if work waits for you or the remote.
    """
    import time

    from ralphgen.agents.sandbox import open_sandbox
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import require_trust
    from ralphgen.kits.project import Project as Inspected
    from ralphgen.kits.registry import read_settings
    from ralphgen.loop.merges import MergeQueue, Outcome, enter_unqueued_work, targets, words_of
    from ralphgen.loop.run import Event, event, event_lines
    from ralphgen.project.database import shared_connections
    from ralphgen.project.root import project_root
    from ralphgen.sessions.create import project_items
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("merges run")
    root, tell = project_root(project), progress(quiet)
    if warning := require_trust(root, project_items(root), confirm_trust, is_whole=True):
        tell(warning)
    config = read_settings(root).loop

    def ended(entry: "QueuedMerge", outcome: Outcome) -> None:
        word = "merged" if hasattr(outcome, "commit") else "not merged"
        text = words_of(outcome)[0]
        told: Event = event("merge", task=entry.task, outcome=word, text=text)
        for line in event_lines(told):
            tell(line)

    waits = False
    around = open_sandbox(Inspected(root), say, asked=False)
    with around, shared_connections(root):
        enter_unqueued_work(root, config, tell)
        for target in targets(root):
            queue = MergeQueue(root, target, config, tell, ended=ended, trust_edited=trust_edited)
            while not queue.empty():
                time.sleep(PAUSE)
            if left := queue.waiting():
                waits = True
                say(plain(f'{len(left)} waiting for "{target}": {queue.obstacle}'))
    if waits:
        raise typer.Exit(NEEDS_USER)


@merges.command("drop", example="ralphgen merges drop 3")
def drop(
    number: Annotated[int, typer.Argument(min=1, metavar="N", help="The number of the merge.")],
    project: Project = Path(),
) -> None:
    """Remove work from the queue; its branch is kept."""
    from ralphgen.loop.merges import drop_entry
    from ralphgen.project.root import project_root
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("merges drop")
    branch = drop_entry(project_root(project), number, say)
    if not branch:
        raise MissingError(f"no merge {number} waits", 'list them with "ralphgen merges"')
    print(plain(f'dropped merge {number}; its work is on the branch "{branch}"'))
