"""The commands on workers: machines that take tasks without the database."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_workers
from ralphgen.errors import plain
from ralphgen.terminal.app import App, Json, Project, Quiet, TrustEdited
from ralphgen.terminal.console import print_json, progress

app = App()
worker = App(help="Let other machines take tasks without the database.")
app.add_typer(worker, name="worker")

NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the new worker.")]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the worker.", autocompletion=complete_workers),
]
Merge = Annotated[bool, typer.Option("--merge", help="Let the worker run the merge queue.")]
Ttl = Annotated[str, typer.Option(metavar="TIME", help="Lifetime of the token, at most 24h.")]


@worker.command(example="ralphgen worker add mac-2")
def add(
    name: NewName,
    merge: Merge = False,
    ttl: Ttl = "24h",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Add a worker and print its token, which is shown only now."""
    from ralphgen.loop.run import parse_duration
    from ralphgen.sessions.workers import add_worker

    tell = progress(quiet)
    seconds = int(parse_duration(ttl))
    root = _root(project, "add")
    token = add_worker(root, name, seconds, merge=merge, say=tell, trust_edited=trust_edited)
    tell(f"added worker {name}, valid for {ttl}; there, run:")
    tell("RALPH_WORKER_TOKEN=TOKEN ralphgen loop --server URL --worktrees")
    print(token)


@worker.command(name="list", example="ralphgen worker list")
def list_(project: Project = Path(), as_json: Json = False) -> None:
    """List the workers with the state of their tokens."""
    from ralphgen.sessions.workers import list_workers
    from ralphgen.terminal.console import say

    found = [one.as_json() for one in list_workers(_root(project, "list"))]
    if as_json:
        print_json(found)
        return
    for one in found:
        merges = "merges" if one["merge"] else ""
        seen = f"seen {one['seen']} on {one['host']}" if one["seen"] else "not seen"
        facts = (one["name"], one["state"], f"until {one['expires']}", seen, merges)
        print(plain("  ".join(str(fact) for fact in facts if fact)))
    if not found:
        say("no workers")


@worker.command(example="ralphgen worker revoke mac-2")
def revoke(name: Name, project: Project = Path()) -> None:
    """Revoke a worker's token and end its sessions."""
    from ralphgen.sessions.workers import revoke_worker

    ended = revoke_worker(_root(project, "revoke"), name)
    text = f"revoked worker {plain(name)}"
    print(f"{text} and ended {len(ended)} session{'s' * (len(ended) != 1)}")


def _root(project: Path, command: str) -> Path:
    """Return the project of a command that agents may not run."""
    from ralphgen.project.root import project_place
    from ralphgen.terminal.console import refuse_agents

    refuse_agents(f"worker {command}")
    return project_place(project).root
