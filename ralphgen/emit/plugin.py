"""Renders files for Claude Code: the project's plugin, and a subagent for each discipline."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path

from ralphgen import __version__
from ralphgen.emit.clients import COMMAND
from ralphgen.emit.skills import GUIDE, TEXT, render_skills
from ralphgen.errors import ProjectError, plain
from ralphgen.files import Files, seal
from ralphgen.kits.project import Project
from ralphgen.planning.model import ServerPlan
from ralphgen.project.database import open_database
from ralphgen.project.disciplines import discipline_rows
from ralphgen.project.root import CONFIG
from ralphgen.rendering import rendered

AGENTS_FOLDER = ".claude/agents"
KIT, RECIPE = "ralph", "task_execution"
_AGENTS_SETTINGS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n",
}
# An agent's tools of Claude Code itself, in addition to those of its server.
AGENT_TOOLS = ("Read", "Edit", "Write", "Glob", "Grep", "Bash")
_PERSONA_COLUMNS = ("display_name", "description", "system_prompt", "conventions")


@dataclass(frozen=True, slots=True)
class Persona:
    """A discipline as described to its subagent; fields that the database lacks are empty."""

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
        """The unique name of its server: another server of the same name would be used instead."""
        return f"{KIT}-{self.agent}"


def read_personas(project: Project) -> tuple[Persona, ...]:
    """Return the disciplines of a project, by name, without columns that are hidden.

    Raises `ProjectError` without a server that has tasks to take, and for disciplines whose agents
    would share a name or have none.
    """
    plan = project.plan
    if all(kit.key != KIT for kit in plan.kits):
        text = f'the kit "{KIT}" is off, and with it tasks and disciplines'
        raise ProjectError(text, f"enable it in {CONFIG}, or delete {AGENTS_FOLDER}")
    there = {column["name"] for column in plan.facts["schema"].get("disciplines", ())}
    columns = [
        one for one in _PERSONA_COLUMNS if one in there and f"disciplines.{one}" not in plan.hide
    ]
    with open_database(project.root) as connection:
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
    texts = {f"{persona.agent}.md": _agent_text(persona) for persona in personas}
    return seal({**_AGENTS_SETTINGS, **texts}, {"ralphgen": __version__})


def _agent_text(persona: Persona) -> str:
    title = plain(persona.display_name or persona.name)
    about = f" {plain(persona.description)}" if persona.description else ""
    arguments = ["serve", KIT, "--recipe", RECIPE, "--discipline", persona.name, "--next"]
    return rendered(
        "claude/agent.md.jinja",
        name=persona.agent,
        description=json.dumps(
            f"{title}: does the next task of this discipline that is ready, and closes it.{about}"
        ),
        tools=", ".join((*AGENT_TOOLS, f"mcp__{persona.server}")),
        server=persona.server,
        command=COMMAND,
        arguments=json.dumps(arguments),
        title=title,
        system_prompt=persona.system_prompt.strip(),
        conventions=persona.conventions.strip(),
    )


PLUGIN_FOLDER = ".ralph/plugin"
PLUGIN_NAME = "ralphgen"
TASKS = "ralph"  # the kit that has tasks, which the commands are about
_PLUGIN_SETTINGS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n__pycache__/\n",
}
_CHECK_COMMAND = "check"  # the command that only projects with checks have
COMMANDS = {
    "next": "claude/command_next.md.jinja",
    "brief": "claude/command_brief.md.jinja",
    _CHECK_COMMAND: "claude/command_check.md.jinja",
    "done": "claude/command_done.md.jinja",
}
# Formatters leave the plugin alone.
LEFT_ALONE = {".prettierrc": "server/prettierrc.jinja", "ruff.toml": "server/ruff.toml.jinja"}
ABOUT = "The project's tasks and tools, and guardrails for its sessions."
HOOKS = (
    "agents/gate.py",
    "runtime/files/main_tree.py",
    "runtime/files/protection.py",
)
GATE = "gate.py"
WATCHED = "^(Edit|MultiEdit|NotebookEdit|Write|mcp__.*)$"  # the tools that a session may not have
SECONDS = 30  # a hook that takes longer has failed
GATE_SECONDS = 600  # for a hook that runs checks; Claude Code waits no longer
_BESIDE = re.compile(r"(?m)^from ralphgen\.runtime\.files\.(\w+) import ")


def render_plugin(plan: ServerPlan) -> Files:
    """Return the files of the plugin, by path in its folder, with their manifest.

    The same plan gives the same bytes: nothing in them names a machine or a day.
    """
    texts = {
        **{path: rendered(template) for path, template in LEFT_ALONE.items()},
        "hooks/hooks.json": _json({"description": ABOUT, "hooks": _hooks()}),
        **dict(_programs()),
        **dict(_commands(plan)),
        **dict(_skills(plan)),
    }
    digest = sha256("\0".join(f"{path}\0{texts[path]}" for path in sorted(texts)).encode())
    version = f"{__version__}+{digest.hexdigest()[:12]}"  # marks an installed copy as outdated
    texts[".claude-plugin/plugin.json"] = _json(
        {
            "name": PLUGIN_NAME,
            "version": version,
            "description": ABOUT,
            "author": {"name": PLUGIN_NAME},
        }
    )
    texts[".claude-plugin/marketplace.json"] = _json(
        {
            "name": PLUGIN_NAME,
            "description": ABOUT,
            "owner": {"name": PLUGIN_NAME},
            "plugins": [{"name": PLUGIN_NAME, "description": ABOUT, "source": "./"}],
        }
    )
    return seal({**_PLUGIN_SETTINGS, **texts}, {"ralphgen": __version__})


def _hooks() -> dict[str, object]:
    """Return the events that call the gate; a failure before a call is a denial.

    Claude Code supports `onFailure` since 2.1.295, but not when a session stops, so that a failing
    hook cannot block a session forever.
    """
    before = {"matcher": WATCHED, "hooks": [{**_asking("PreToolUse"), "onFailure": "block"}]}
    ends = ("Stop", "SubagentStop")
    stops = {event: [{"hooks": [{**_asking(event), "timeout": GATE_SECONDS}]}] for event in ends}
    return {"PreToolUse": [before], **stops}


def _asking(event: str) -> dict[str, object]:
    """Return the hook that starts the gate, without a shell and without site packages."""
    program = f"${{CLAUDE_PLUGIN_ROOT}}/hooks/{GATE}"
    arguments = ["-E", "-s", "-S", "-B", program, event]
    return {"type": "command", "command": "python3", "args": arguments, "timeout": SECONDS}


def _programs() -> Iterator[tuple[str, str]]:
    """Yield the hooks' modules, with imports of each other from their own directory."""
    for source in HOOKS:
        text = resources.files("ralphgen").joinpath(source).read_text(encoding="utf-8")
        yield f"hooks/{Path(source).name}", _BESIDE.sub(r"from \1 import ", text)


def _commands(plan: ServerPlan) -> Iterator[tuple[str, str]]:
    """Yield the slash commands that apply to the project."""
    if all(kit.key != TASKS for kit in plan.kits):
        return
    checks = bool(plan.facts["config"].get("done"))
    for name, template in COMMANDS.items():
        if checks or name != _CHECK_COMMAND:
            yield f"commands/{name}.md", rendered(template, checks=checks)


def _skills(plan: ServerPlan) -> Iterator[tuple[str, str]]:
    for skill in render_skills(plan, f"{PLUGIN_FOLDER}/skills"):
        yield from ((f"skills/{skill.name}/{path}", skill.files[path]) for path in (TEXT, GUIDE))


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
