"""`ralphgen trust`: shows the commands that a clone runs, and records the consent."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.errors import plain
from ralphgen.runtime.errors import one_line
from ralphgen.terminal.app import App, Project, Yes
from ralphgen.terminal.console import say

if TYPE_CHECKING:
    from ralphgen.emit.trust import Ask, TrustItem

app = App()


@app.command(example="ralphgen trust")
def trust(
    project: Project = Path(),
    signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Allowed signers, in the format of git and ssh-keygen."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --signers: their branch, such as origin/main."),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="End the approval of signed commits.")
    ] = False,
    commit: Annotated[
        str | None, typer.Option(metavar="REF", help="Approve the rules of this commit, for CI.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Review and approve the commands a project runs.

    With --signers and --branch, you also approve later commits on the branch that these keys sign.
    """
    from ralphgen.errors import UsageError

    if (signers is None) != (branch is None):
        raise UsageError("--signers and --branch belong together", "pass both")
    if (signers is not None) + forget + (commit is not None) > 1:
        raise UsageError("--signers, --forget and --commit cannot be combined", "pass one of them")
    if forget:
        from ralphgen.emit.delegation import forget_delegation
        from ralphgen.project.root import write_root

        done = forget_delegation(write_root(project, "trust"))
        say("signed commits need your approval again" if done else "no signers to forget")
    elif commit is not None:
        _trust_commit(project, commit, yes=yes)
    elif signers is not None and branch is not None:
        _delegate(project, signers, branch, yes=yes)
    else:
        _trust_items(project, yes=yes)


def _trust_commit(project: Path, reference: str, *, yes: bool) -> None:
    """Record the rules of a commit, which need not be checked out."""
    from ralphgen.emit.delegation import resolve_commit
    from ralphgen.emit.trust import items_at
    from ralphgen.project.root import write_root

    root = write_root(project, "trust")
    is_new = _recorded(root, items_at(root, resolve_commit(root, reference)), yes=yes)
    say(f"{'approved' if is_new else 'nothing to approve in'} the rules of {plain(reference)}")


def _delegate(project: Path, signers: Path, branch: str, *, yes: bool) -> None:
    """Approve the current items, then record the signers of a branch."""
    from ralphgen.emit.delegation import keep_delegation, new_delegation, signer_lines
    from ralphgen.errors import ProjectError, UsageError
    from ralphgen.project.root import write_root
    from ralphgen.terminal.console import at_terminal, confirmed

    root = write_root(project, "trust")
    found = new_delegation(root, signers, branch)
    _trust_items(project, yes=yes)
    say(f"these keys may sign for you on {plain(found.branch)}, from {found.anchor[:12]} on:")
    for line in signer_lines(found.signers):
        say(f"  {one_line(line)}")
    if not found.is_signed:
        say("warning: the newest commit has no good signature of them; only later commits count")
    if not yes and not at_terminal():
        raise UsageError("confirmation needed, but there is no terminal", "pass --yes")
    if not yes and not confirmed("approve later commits that they sign?"):
        say("nothing was delegated")
        raise typer.Exit(1)
    try:
        keep_delegation(root, found)
    except OSError as error:
        raise ProjectError(f"the signers cannot be recorded: {error}") from error
    say('recorded; to end it, run "ralphgen trust --forget"')


def _trust_items(project: Path, *, yes: bool) -> None:
    """Approve the current items."""
    from ralphgen.emit.trust import database_items, worker_items
    from ralphgen.emit.workflows import compile_server
    from ralphgen.kits.project import Project as Inspected
    from ralphgen.kits.registry import read_settings
    from ralphgen.project.root import database_place, has_database, write_root
    from ralphgen.sessions.create import project_items

    root = write_root(project, "trust")
    is_new = _recorded(root, database_items(root), yes=yes)  # before it is looked for
    place = database_place(root)
    if not has_database(root) or (place is not None and not os.environ.get(place.dsn_env)):
        is_new = _recorded(root, worker_items(Inspected(root)), yes=yes) or is_new
        done = "approved the settings" if is_new else "no new settings to approve"
        say(f'{done}; next: "ralphgen init" creates the database, then run "ralphgen trust" again')
        if read_settings(root).loop.remote is not None:
            say('a worker needs no database; next: "ralphgen loop --server URL --worktrees"')
        return
    is_new = _recorded(root, project_items(root), yes=yes, marks=True)
    compile_server(root)
    say("approved" if _accepted(root, yes=yes) or is_new else "nothing to approve")


def _recorded(root: Path, items: "Sequence[TrustItem]", *, yes: bool, marks: bool = False) -> bool:
    """Record the items once the user accepts them; return whether one was not on record."""
    from ralphgen.emit.trust import delegated, digests_by_kind, settings_of_items
    from ralphgen.errors import UsageError
    from ralphgen.project.approvals import add_to_record, read_record
    from ralphgen.terminal.console import at_terminal

    record = read_record(root)
    unknown = [item for item in items if item.needs_approval(record)]
    verified = delegated(root, unknown)
    shown = [item.shown for item in unknown if item.digest not in verified]
    if yes and shown:
        _show(shown)
    elif shown and not at_terminal():
        _show(shown)
        raise UsageError("confirmation needed, but there is no terminal", "pass --yes")
    elif shown and not confirm_trust(shown):
        say("nothing was approved")
        raise typer.Exit(1)
    if unknown or marks:
        add_to_record(root, *digests_by_kind(items), settings_of_items(items), marks=marks)
    return bool(shown)


def _accepted(root: Path, *, yes: bool) -> bool:
    """Accept the protected files that agent sessions changed; return whether there were some."""
    from ralphgen.errors import UsageError
    from ralphgen.runtime.files.work_tree import mark_of
    from ralphgen.sessions.snapshot import accept_changes, earlier_changes
    from ralphgen.terminal.console import at_terminal, confirmed

    before = earlier_changes(root, root)
    if not before:
        return False
    files = {path: mark_of(str(root / path)) for path in before}
    say("agent sessions changed these protected files:")
    for path, mark in sorted(files.items()):
        done = "changed" if mark and before[path] else "added" if mark else "removed"
        say(f"  {done} {plain(path)}")
    if not yes and not at_terminal():
        raise UsageError("confirmation needed, but there is no terminal", "pass --yes")
    if not yes and not confirmed("accept them?"):
        say("nothing was accepted")
        raise typer.Exit(1)
    accept_changes(root, files)
    return True


def terminal_trust() -> "Ask | None":
    """Return `confirm_trust` for a user at a terminal, or None."""
    from ralphgen.terminal.console import at_terminal

    return confirm_trust if at_terminal() else None


def confirm_trust(shown: Sequence[str]) -> bool:
    """Return whether the user at the terminal trusts the shown items; false without a user.

    An agent that opens a terminal is not asked.
    """
    from ralphgen.runtime.system import is_below_launch
    from ralphgen.terminal.console import at_terminal, confirmed

    if not at_terminal() or is_below_launch():
        return False
    _show(shown)
    return confirmed("approve them?")


def _show(shown: Sequence[str]) -> None:
    say("on your machine, this project runs or uses:")
    for line in shown:
        say(f"  {one_line(line)}")  # never cut: the user approves all of it
