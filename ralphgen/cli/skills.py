"""The command on Agent Skills: showing, writing and checking those of the kits that are on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.errors import Say, UsageError
from ralphgen.terminal.app import App
from ralphgen.terminal.console import progress, say
from ralphgen.terminal.options import Project, Quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.output.compare import Drift
    from ralphgen.planning.model import ServerPlan
    from ralphgen.skills.rendering import Skill

app = App()

SkillName = Annotated[str, typer.Argument(help="Name of one skill (default: all).")]


@app.command(example="ralphgen skill --write")
def skill(
    name: SkillName = "",
    write: Annotated[bool, typer.Option("--write", help="Write to .claude/skills/.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite hand-edited files.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the files are out of date.")
    ] = False,
    agents_md: Annotated[
        bool,
        typer.Option("--agents-md", help="Write a short section of AGENTS.md instead of skills."),
    ] = False,
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Show or write an Agent Skill for each kit that is on: when to use which tool, and how.

    Lists the skills, or with a name prints the text of one. With --agents-md all is about
    the section on the servers in AGENTS.md, which stands between two marks.
    """
    from ralphgen.generate.workflows import generate
    from ralphgen.project.root import project_root, written_root
    from ralphgen.skills.rendering import render_skills
    from ralphgen.skills.writing import leftovers

    _refuse_contradictions(write=write, force=force, check=check)
    if agents_md and (name or force):
        text = '"--agents-md" takes no name of a skill and no "--force"'
        raise UsageError(text, "leave them out")
    tell = progress(quiet)
    root = written_root(project, "skill --write") if write else project_root(project)
    generated = generate(root)
    plan = generated.plan
    if agents_md:
        done = generated.project.done
        names = [one.name for one in done.checks] if done else []
        _section_of_agents_md(root, plan, names, write=write, check=check, tell=tell)
        return
    chosen = _chosen(render_skills(plan), name)
    for left in leftovers(root, [kit.key for kit in plan.kits]):
        tell(f'left alone: {left.folder}, which was written for the kit "{left.kit}" that is off')
    if write:
        _write(root, chosen, force=force, tell=tell)
    elif check:
        _check(root, chosen, tell)
    else:
        _show(chosen, whole=bool(name))


def _section_of_agents_md(
    root: Path,
    plan: "ServerPlan",
    checks: "Sequence[str]",
    *,
    write: bool,
    check: bool,
    tell: Say,
) -> None:
    from ralphgen.skills.agents_md import FILE, render_section, section_diff, write_section
    from ralphgen.trust.items import recorded_writes

    section = render_section(plan, checks)
    if write:
        with recorded_writes(root):
            changed = write_section(root, section)
        tell(f"{'wrote the section of' if changed else 'nothing to change in'} {FILE}")
    elif not check:
        sys.stdout.write(section)
    elif diff := section_diff(root, section):
        sys.stdout.write(diff)
        sys.stdout.flush()
        say(f"error: {FILE} is not what would be written now")
        say('hint: run "ralphgen skill --agents-md --write", and commit what it writes')
        raise typer.Exit(1)
    else:
        tell(f"{FILE} is up to date")


def _refuse_contradictions(*, write: bool, force: bool, check: bool) -> None:
    if write and check:
        raise UsageError('"--write" and "--check" exclude each other', "name one of them")
    if force and not write:
        raise UsageError('"--force" is for "--write"', "name both, or neither")


def _chosen(skills: "Sequence[Skill]", name: str) -> "Sequence[Skill]":
    """Return the skill of this name, or all where none is asked for."""
    from ralphgen.suggestion import suggestion

    found = [one for one in skills if name in ("", one.name)]
    if name and not found:
        hint = suggestion(name, [one.name for one in skills], "the skills of the kits that are on")
        raise UsageError(f'there is no skill "{name}"', hint)
    return found


def _show(skills: "Sequence[Skill]", *, whole: bool) -> None:
    from ralphgen.skills.rendering import GUIDE, TEXT

    for one in skills:
        if not whole:
            print(f"{one.name}: {one.description}")
            continue
        for path in (TEXT, GUIDE):
            sys.stdout.write(f"==> {one.folder}/{path} <==\n{one.files[path]}")


def _write(root: Path, skills: "Sequence[Skill]", *, force: bool, tell: Say) -> None:
    from ralphgen.skills.writing import write_skills
    from ralphgen.trust.items import recorded_writes

    with recorded_writes(root):
        done = write_skills(root, skills, force=force)
    for folder, written in done.items():
        count = len((*written.added, *written.changed, *written.removed))
        tell(f"{folder}: {f'{count} files written' if count else 'nothing to change'}")


def _check(root: Path, skills: "Sequence[Skill]", tell: Say) -> None:
    from ralphgen.skills.writing import compare_skills

    drifted = {folder: one for folder, one in compare_skills(root, skills).items() if one}
    for folder, drift in drifted.items():
        sys.stdout.write(drift.diff)
        sys.stdout.flush()
        say(f"error: {folder} is not what would be written now\nhint: {_fix(folder, drift)}")
    if drifted:
        raise typer.Exit(1)
    tell("the skills are up to date")


def _fix(folder: str, drift: "Drift") -> str:
    if drift.hint:
        return drift.hint
    if drift.edited:
        edited = ", ".join(f"{folder}/{path}" for path in drift.edited)
        return f'"ralphgen skill --write --force" overwrites the edits of {edited}'
    return 'run "ralphgen skill --write", and commit what it writes'
