"""A second kit, small and whole: notes in folders of the project, as two tools.

    python notes_kit.py COMMAND...

runs ralphgen's command line with this kit behind its own ones.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

import ralphgen.kits.registry
from ralphgen.cli.main import main as run
from ralphgen.errors import ProjectError
from ralphgen.planning.kit import Kit
from ralphgen.planning.model import RECIPES, Argument, KitPlan, ToolPlan
from ralphgen.project.model import Project
from ralphgen.spelling import Name, Value

INSTRUCTIONS = '''"""What a session is told about notes."""


def instructions(session, tools):
    """The tools that it sees."""
    return f"Notes for {session.recipe}: {', '.join(tool.name for tool in tools)}"
'''
WORKSPACE = '''"""The folders of the notes."""

import os


class Notes:
    """Where notes are, and how long one may be."""

    def __init__(self, folder, longest):
        self.folder = folder
        self.longest = longest

    def close(self):
        """Let go of nothing."""

    def hurry(self, _seconds):
        """Notes never wait."""


def open_workspace(folder, _session, settings):
    """The notes of the project around the server."""
    root = os.path.dirname(os.path.dirname(folder))
    return Notes(os.path.join(root, settings["folder"]), settings["longest"])
'''
NOTES_MODULE = '''"""Reading and writing notes."""

import os

from ..errors import ToolError


def list_notes(notes, arguments):
    """By notebook, the lines in it."""
    given = arguments.get("notebook")
    names = [given] if given else sorted(os.listdir(notes.folder))
    return {"notes": {name: _lines(notes, name) for name in names}}


def append_learning(notes, arguments):
    """Add a line to a notebook."""
    if len(arguments["text"]) > notes.longest:
        raise ToolError(f"the text is too long: expected at most {notes.longest} characters")
    with open(_path(notes, arguments["notebook"]), "a", encoding="utf-8") as file:
        file.write(arguments["text"] + "\\n")
    return {"notebook": arguments["notebook"]}


def _lines(notes, name):
    with open(_path(notes, name), encoding="utf-8") as file:
        return file.read().splitlines()


def _path(notes, name):
    return os.path.join(notes.folder, name, "lines.txt")
'''
ASSETS = {
    "notes/skill.md": "# Notes\n\nWrite down what will matter tomorrow.\n",
    "runtime/notes/__init__.py": '"""What the tools on notes do."""\n',
    "runtime/notes/instructions.py": INSTRUCTIONS,
    "runtime/notes/notes.py": NOTES_MODULE,
    "runtime/notes/workspace.py": WORKSPACE,
}


class NotesSettings(BaseModel):
    """`[notes]`: where notes are, and how long one may be."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    folder: str = "notes"
    longest: int = Field(default=80, ge=1)


def survey(root: Path, settings: Mapping[str, Any]) -> list[str]:
    """The notebooks, which are folders."""
    folder = root / str(settings["folder"])
    if folder.is_file():
        raise ProjectError(f'"{settings["folder"]}" is a file, expected a folder of notebooks')
    return sorted(path.name for path in folder.glob("*/"))


NOTEBOOK: Value = {"type": "string", "enum": Name("NOTEBOOKS")}
TOOLS = (
    ToolPlan(
        "list_notes",
        module="notes",
        hints="READS",
        description="List the notes.",
        arguments=(Argument("notebook", NOTEBOOK),),
        returns={"type": "object", "properties": {"notes": {"type": "object"}}},
        recipes=RECIPES,
        narrowed={"discuss": ()},
    ),
    ToolPlan(
        "append_learning",
        module="notes",
        hints="ADDS",
        description="Write a note down.",
        arguments=(
            Argument("notebook", NOTEBOOK, required=True),
            Argument("text", Name("STRING"), required=True),
        ),
        returns={"type": "object", "properties": {"notebook": {"type": "string"}}},
        recipes=("braindump",),
    ),
)


def plan_notes(project: Project) -> KitPlan:
    """Two tools, or one without arguments where there is no notebook to write in."""
    notebooks = tuple(project.survey("notes"))
    return KitPlan(
        key="notes",
        server_name="field-notes",
        title="Notes in the project's folders.",
        nouns={"notes": "Tools on notes."},
        tools=TOOLS if notebooks else (replace(TOOLS[0], arguments=()),),
        server="",
        constants={"NOTEBOOKS": notebooks},
        absent={} if notebooks else {"append_learning": "the project has no notebook"},
        settings={name: project.setting("notes", name) for name in ("folder", "longest")},
        assets=ASSETS,
        refusals="error",
        warnings=() if notebooks else ("there is no notebook",),
    )


NOTES = Kit(
    key="notes",
    tools=TOOLS,
    plan=plan_notes,
    settings=NotesSettings,
    survey=survey,
    setup={"notes/inbox/lines.txt": "Welcome.\n"},
)


def main() -> None:
    """Run the command of `sys.argv` as `ralphgen` does."""
    ralphgen.kits.registry.KITS = (*ralphgen.kits.registry.KITS, NOTES)
    run()


if __name__ == "__main__":
    main()
