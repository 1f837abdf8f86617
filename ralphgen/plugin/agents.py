"""Renders a subagent of Claude Code for each discipline, which has a server of its own."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralphgen import __version__
from ralphgen.clients.forms import COMMAND
from ralphgen.errors import ProjectError, plain
from ralphgen.files import Files, seal
from ralphgen.planning.model import ServerPlan
from ralphgen.project.database import open_database
from ralphgen.project.disciplines import discipline_rows
from ralphgen.project.root import CONFIG
from ralphgen.rendering.templates import rendered

FOLDER = ".claude/agents"
KIT, RECIPE = "ralph", "task_execution"
OURS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n",
}
# What an agent has of Claude Code itself, beside the tools of its server.
TOOLS = ("Read", "Edit", "Write", "Glob", "Grep", "Bash")
WORDS = ("display_name", "description", "system_prompt", "conventions")


@dataclass(frozen=True, slots=True)
class Persona:
    """A discipline as its subagent is told who it is; what the database does not say is empty."""

    name: str
    display_name: str = ""
    description: str = ""
    system_prompt: str = ""
    conventions: str = ""

    @property
    def agent(self) -> str:
        """The name of the subagent: small letters, digits and hyphens, as Claude Code has it."""
        return re.sub("[^a-z0-9]+", "-", self.name.casefold()).strip("-")

    @property
    def server(self) -> str:
        """The name of its server, which no other has: one of the same name would be taken over."""
        return f"{KIT}-{self.agent}"


def read_personas(root: Path, plan: ServerPlan) -> tuple[Persona, ...]:
    """Return the disciplines of the project in `root`, by name, without columns that are hidden.

    Raises `ProjectError` without a server that has tasks to take, and for disciplines whose agents
    would share a name or have none.
    """
    if all(kit.key != KIT for kit in plan.kits):
        text = f'the kit "{KIT}" is off, and with it tasks and disciplines'
        raise ProjectError(text, f"enable it in {CONFIG}, or delete {FOLDER}")
    there = {column["name"] for column in plan.facts["schema"].get("disciplines", ())}
    columns = [one for one in WORDS if one in there and f"disciplines.{one}" not in plan.hide]
    with open_database(root) as connection:
        rows = discipline_rows(connection, *columns)
    found = [
        Persona(name, **{key: str(value or "") for key, value in zip(columns, values, strict=True)})
        for name, *values in rows
    ]
    agents = [persona.agent for persona in found]
    for persona in found:
        if not persona.agent or agents.count(persona.agent) > 1:
            text = f'the discipline "{persona.name}" has no unique name as an agent of Claude Code'
            raise ProjectError(
                text, "rename it: agent names consist of lower-case letters, digits and hyphens"
            )
    return tuple(found)


def render_agents(personas: Sequence[Persona]) -> Files:
    """Return the files of `.claude/agents/`, by path in it, with their manifest."""
    texts = {f"{persona.agent}.md": _agent(persona) for persona in personas}
    return seal({**OURS, **texts}, {"ralphgen": __version__})


def _agent(persona: Persona) -> str:
    title = plain(persona.display_name or persona.name)
    about = f" {plain(persona.description)}" if persona.description else ""
    arguments = ["serve", KIT, "--recipe", RECIPE, "--discipline", persona.name, "--next"]
    return rendered(
        "agent.md.jinja",
        name=persona.agent,
        description=json.dumps(
            f"{title}: does the next task of this discipline that is ready, and closes it.{about}"
        ),
        tools=", ".join((*TOOLS, f"mcp__{persona.server}")),
        server=persona.server,
        command=COMMAND,
        arguments=json.dumps(arguments),
        title=title,
        system_prompt=persona.system_prompt.strip(),
        conventions=persona.conventions.strip(),
    )
