"""The commands that write what Claude Code takes from files: a plugin, subagents."""

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.errors import Say, UsageError, harmless
from ralphgen.terminal.app import App
from ralphgen.terminal.console import progress, say
from ralphgen.terminal.options import Project, Quiet

if TYPE_CHECKING:
    from ralphgen.output.manifest import Files

app = App()

Force = Annotated[bool, typer.Option("--force", help="Overwrite hand-edited files.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with 1 if the files are out of date.")]


@app.command(example="ralphgen agents --write")
def agents(
    write: Annotated[bool, typer.Option("--write", help="Write to .claude/agents/.")] = False,
    check: Check = False,
    force: Force = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Show or write a subagent of Claude Code for each discipline, which does its next task.

    Each has a server of its own, whose session begins and ends with it.
    """
    from ralphgen.generate.workflows import generate
    from ralphgen.plugin.agents import FOLDER, read_personas, render_agents
    from ralphgen.project.root import project_root, written_root
    from ralphgen.trust.items import recorded_writes

    if write and check:
        raise UsageError('"--write" and "--check" exclude each other', "name one of them")
    tell = progress(quiet)
    root = written_root(project, "agents --write") if write else project_root(project)
    files = render_agents(read_personas(root, generate(root).plan))
    if write or check:
        with recorded_writes(root):
            _settle(root / FOLDER, FOLDER, files, "ralphgen agents --write", check, force, tell)
    else:
        sys.stdout.writelines(f"{FOLDER}/{path}\n" for path in files)


@app.command(example="ralphgen plugin && claude --plugin-dir .ralph/plugin")
def plugin(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Directory of the plugin (default: .ralph/plugin).",
        ),
    ] = None,
    check: Check = False,
    force: Force = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Write a plugin for Claude Code: skills, slash commands, and hooks as a second wall.

    The hooks deny what the session's policy denies, and ask once before a task is left open.
    """
    from ralphgen.generate.workflows import generate
    from ralphgen.plugin.folder import FOLDER, render_plugin
    from ralphgen.project.root import project_root, written_root
    from ralphgen.trust.items import recorded_writes

    if check and force:
        raise UsageError('"--force" is for writing, not for "--check"', "leave one of them out")
    tell = progress(quiet)
    root = project_root(project) if check else written_root(project, "plugin")
    files = render_plugin(generate(root).plan)
    folder, shown = (root / FOLDER, FOLDER) if output is None else (output, str(output))
    command = "ralphgen plugin" if output is None else f"ralphgen plugin -o {quote(shown)}"
    with recorded_writes(root):
        _settle(folder, shown, files, command, check, force, tell)


def _settle(
    folder: Path, shown: str, files: "Files", command: str, check: bool, force: bool, tell: Say
) -> None:
    """Write the files, or compare them and exit with 1 where they differ; `command` writes them."""
    from ralphgen.plugin.writing import compare_files, write_files

    if not check:
        written = write_files(folder, files, command, force=force)
        count = len((*written.added, *written.changed, *written.removed))
        tell(f"{shown}: {f'{count} files written' if count else 'nothing to change'}")
        return
    drift = compare_files(folder, files, command)
    if not drift:
        tell(f"{shown} is up to date")
        return
    sys.stdout.write(harmless(drift.diff))
    sys.stdout.flush()
    how = f'"{command} --force" overwrites edits' if drift.edited else f'run "{command}"'
    say(f"error: {shown} is not what would be written now\nhint: {drift.hint or how}")
    raise typer.Exit(1)
