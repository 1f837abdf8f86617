"""`ralphgen session brief`: the brief of a session, and the size of each section."""

from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.cli.recipes import RecipeCommand
from ralphgen.cli.sessions import (
    Discipline,
    Feature,
    Next,
    Recipe,
    Task,
    app,
    open_session,
    session,
)
from ralphgen.errors import harmless, plain
from ralphgen.sessions.decide import Request, no_tasks
from ralphgen.terminal.app import Json, Project, TrustEdited
from ralphgen.terminal.console import print_json, say

if TYPE_CHECKING:
    from ralphgen.sessions.model import Brief

__all__ = ["app", "brief"]


@session.command(cls=RecipeCommand, example="ralphgen session brief task_execution --task 7")
def brief(
    recipe: Recipe,
    task: Task = None,
    next_: Next = False,
    feature: Feature = "",
    discipline: Discipline = "",
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Print the brief that a session would start with."""
    from ralphgen.project.root import project_place
    from ralphgen.sessions.store import remove

    place = project_place(project)
    request = Request(recipe, task, feature, discipline, next=next_)
    made = open_session(place, request, say, dry_run=True, trust_edited=trust_edited)
    remove(made.folder)
    found = made.brief
    if found is None:
        raise no_tasks(served.kit for served in made.served)
    if as_json:
        print_json({"recipe": made.recipe, **_facts(found)})
        return
    parts = (("System", found.system), ("Task", found.task))
    print("\n\n".join(f"# {name} part\n\n{harmless(text)}" for name, text in parts if text))
    for line in _sizes(found):
        say(line)


def _facts(brief: "Brief") -> dict[str, object]:
    return {
        "system": brief.system,
        "task": brief.task,
        "characters": brief.characters,
        "max_characters": brief.most,
        "sections": list(brief.sections),
    }


def _sizes(brief: "Brief") -> list[str]:
    """Return the size of each section, part by part, in lines for people."""
    lines: list[str] = []
    for part, text in (("system", brief.system), ("task", brief.task)):
        lines.append(f"{part} part: {len(text):,} characters")
        for section in brief.sections:
            if section["part"] == part and section["title"]:
                cut = f", cut: see {section['cut']}" if "cut" in section else ""
                lines.append(f"  {section['characters']:>7,}  {plain(section['title'])}{cut}")
    if brief.characters > brief.most:
        text = f"{brief.characters - brief.most:,} more than max_characters of [brief] allows"
        lines.append(f"warning: {text}: the rest is never cut")
    return lines
