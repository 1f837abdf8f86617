"""Renders the Agent Skills, the plugin of Claude Code, and the section in `AGENTS.md`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.emit.clients import COMMAND, ClientEntries
from ralphgen.errors import ProjectError, plain
from ralphgen.files import Files, seal
from ralphgen.kits.project import Project
from ralphgen.planning import (
    KitPlan,
    Names,
    PlannedTool,
    ServerPlan,
    SkillPlan,
    Step,
    session_tools,
)
from ralphgen.project.database import open_database
from ralphgen.project.disciplines import discipline_rows
from ralphgen.project.root import CONFIG
from ralphgen.rendering import rendered
from ralphgen.runtime.policy import GRANTS, OPTIONAL, OWN, REQUIRED, RULES, WITHIN, Policy, Recipe
from ralphgen.runtime.protocol.calls import effect_of
from ralphgen.spelling import markdown_cell

_PLAIN = re.compile(r"[ -_a-{}~]+")  # ASCII that ends neither a code span nor a cell
MOST = 100  # rows of a table: limits the loaded text in projects with many recipes
_ABOUT = {REQUIRED: "a {}", OPTIONAL: "a {}, if one is named", GRANTS: "a {}, else it has less"}


def argument_rows(
    schema: Mapping[str, Any], needs: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """Return a row of Markdown cells for each property of an input schema, in its order.

    `needs` holds, by argument, the tool as `"kit:tool"` without which it is not offered.
    """
    required = schema.get("required", ())
    return tuple(
        {
            "name": code(name),
            "type": _type(rule),
            "must": "yes" if name in required else "",
            "values": _values(rule),
            "text": _text(rule, needs.get(name, "")),
        }
        for name, rule in schema.get("properties", {}).items()
    )


def code(value: object) -> str:
    """Return a name or value of JSON as code in a cell.

    One with odd characters as quoted plain text.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    if _PLAIN.fullmatch(text) and text == text.strip():
        return f"`{text}`"
    return markdown_cell(json.dumps(text, ensure_ascii=False))


def codes(values: Iterable[object]) -> str:
    """Return names or values of JSON as code, with commas."""
    return ", ".join(map(code, values))


def _type(rule: Mapping[str, Any]) -> str:
    kinds = rule.get("type", "any")
    if kinds == "array" and "items" in rule:
        return f"array of {_type(rule['items'])}"
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _values(rule: Mapping[str, Any]) -> str:
    """Return the values that an argument may have, or their bounds; empty if all are legal."""
    rule = rule.get("items", rule)
    if "enum" in rule:
        return codes(rule["enum"])
    bounds = {"minimum": "at least", "maximum": "at most", "pattern": "like"}
    said = [f"{words} {code(rule[bound])}" for bound, words in bounds.items() if bound in rule]
    return ", ".join(said)


def _text(rule: Mapping[str, Any], need: str) -> str:
    text = markdown_cell(str(rule.get("description", "")))
    if not need:
        return text
    kit, _, tool = need.partition(":")
    return f"{text} (if the session has {code(tool)} of {code(kit)})".strip()


Rows = tuple[tuple[str, ...], ...]
"""The cells of a table, in Markdown."""


def session_rows(kit: KitPlan, policy: Policy) -> Rows:
    """Return, by recipe, its name, its base if it is the project's own, its rows, its tools."""
    names = tuple(tool.name for tool in kit.tools)
    return tuple(
        (
            markdown_cell(name),
            f"`{recipe.base}`" if recipe.base else "",
            "; ".join(_ABOUT[need].format(kind) for kind, need in recipe.targets.items()),
            "all" if recipe.tools[kit.key] == names else codes(recipe.tools[kit.key]) or "none",
        )
        for name, recipe in policy.recipes.items()
    )


def removal_rows(kit: KitPlan, policy: Policy) -> Rows:
    """Return, by discipline that takes tools of the kit away, its name and their names."""
    return tuple(
        (markdown_cell(discipline), codes(removed[kit.key]))
        for discipline, removed in policy.removed_tools.items()
        if kit.key in removed
    )


def differences(kit: KitPlan, tool: PlannedTool, policy: Policy) -> tuple[str, ...]:
    """Return a line of Markdown for each recipe whose version of a tool differs from the user's."""
    lines = []
    for name, recipe in policy.recipes.items():
        if tool.name in recipe.tools[kit.key]:
            said = "; ".join(_differences(f"{kit.key}:{tool.name}", recipe))
            if said:
                lines.append(f"In {markdown_cell(name)}: {said}.")
    return tuple(lines)


def _differences(entry: str, recipe: Recipe) -> Iterator[str]:
    if entry in recipe.narrowed_arguments:
        kept = codes(recipe.narrowed_arguments[entry])
        yield f"takes {kept} only" if kept else "takes no arguments"
    values: Mapping[str, Sequence[str]] = recipe.narrowed_values.get(entry, {})
    for argument, left in values.items():
        yield f"`{argument}` is one of {codes(left)}"
    for kind in recipe.granted_by.get(entry, ()):
        yield f"only a session about a {kind} has it"
    for argument, rule in recipe.bound_arguments.get(entry, {}).items():
        kind, reach = RULES[rule]
        other = {OWN: ", and no other", WITHIN: ", or another of its feature"}.get(reach, "")
        where = "" if recipe.targets.get(kind) == REQUIRED else f" if it has a {kind}"
        yield f"`{argument}` is the session's own {kind} if left out{other}{where}"


@dataclass(frozen=True, slots=True)
class Told:
    """A rendered workflow: its title, and each step as a line of Markdown."""

    title: str
    steps: Names


def supported_workflows(
    skill: SkillPlan, schemas: Mapping[str, Mapping[str, Any]]
) -> tuple[Told, ...]:
    """Return the workflows that these input schemas support, with the names of their tools.

    A step is left out if its tool is missing or does not support a value, and an argument if the
    tool does not have it.
    """
    found = []
    for workflow in skill.workflows:
        steps = tuple(_step_lines(workflow.steps, schemas))
        if steps and all(need in schemas for need in workflow.needs):
            found.append(Told(workflow.title, steps))
    return tuple(found)


def _step_lines(steps: Iterable[Step], schemas: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        rules = schemas.get(step.tool, {}).get("properties", {})
        if not step.tool:
            yield step.text
        elif step.tool in schemas and _knows(step, rules):
            given = [
                f"`{name}`" if value is None else f"`{name}` {code(value)}"
                for name, value in step.given.items()
                if name in rules
            ]
            called = f"`{step.tool}` with {', '.join(given)}" if given else f"`{step.tool}`"
            yield f"{called}: {step.text[0].lower()}{step.text[1:]}"


def _knows(step: Step, rules: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the argument of each value in a step accepts it."""
    return all(
        value is None or value in rules.get(name, {}).get("enum", (value,))
        for name, value in step.given.items()
    )


FILE = "AGENTS.md"
MARK = "<!-- ralphgen: "
BEGIN = f"{MARK}generated section, rewritten by ralphgen regen -->"
END = f"{MARK}up to here -->"


def render_section(plan: ServerPlan, checks: Sequence[str]) -> str:
    """Return the section with its marks; `checks` names the requirements for closing a task."""
    kits = [kit for kit in plan.kits if kit.skill is not None]
    named = codes(checks) if checks else ""
    return rendered("skills/agents_md.md.jinja", begin=BEGIN, end=END, kits=kits, checks=named)


def with_section(section: str, text: str) -> str:
    """Return the text of the file with the section, at its end if it has none yet.

    Every other byte is unchanged. Raises `ProjectError` unless the text has both marks once, in
    their order, or none.
    """
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    section = section.replace("\n", end_of_line)
    lines = text.splitlines(keepends=True)
    marks = [at for at, line in enumerate(lines) if line.strip().startswith(MARK)]
    ends = [at for at in marks if lines[at].strip() == END]
    begins = [at for at in marks if at not in ends]  # earlier versions had another text there
    if not begins and not ends:
        gap = "" if not text else end_of_line if text.endswith("\n") else 2 * end_of_line
        return text + gap + section
    if len(begins) != 1 or len(ends) != 1 or ends < begins:
        wrong = f'"{FILE}" does not have both marks of ralphgen once, the first one first'
        raise ProjectError(wrong, f'put the lines "{BEGIN}" and "{END}" right, or remove both')
    return "".join([*lines[: begins[0]], section, *lines[ends[0] + 1 :]])


SKILLS = ".claude/skills"
TEXT, GUIDE = "SKILL.md", "references/tool-guide.md"
OURS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n",
}


@dataclass(frozen=True, slots=True)
class Skill:
    """An Agent Skill: name, kit, description, and its files by path in its folder."""

    name: str
    kit: str
    description: str
    files: Files

    @property
    def folder(self) -> str:
        """Its path below the project's folder."""
        return f"{SKILLS}/{self.name}"


def render_skills(plan: ServerPlan, place: str = SKILLS) -> tuple[Skill, ...]:
    """Return the skill of every kit of the plan that has one, in the order of the kits.

    `place` is the folder that their texts name as their location. The same plan gives the same
    bytes: nothing in them names a machine or a day, and only the manifest names a version.
    """
    return tuple(
        Skill(kit.skill.name, kit.key, kit.skill.description, _files(plan, kit, kit.skill, place))
        for kit in plan.kits
        if kit.skill is not None
    )


def _files(plan: ServerPlan, kit: KitPlan, skill: SkillPlan, place: str) -> Files:
    listed = {tool["name"]: tool for tool in session_tools(plan, "manual", kit)}
    schemas = {name: tool["inputSchema"] for name, tool in listed.items()}
    sessions, removals = session_rows(kit, plan.policy), removal_rows(kit, plan.policy)
    values: dict[str, object] = {
        "kit": kit.key,
        "skill": skill,
        "folder": f"{place}/{skill.name}",
        "tools": [_tool(plan, kit, tool, schemas[tool.name]) for tool in kit.tools],
        "workflows": supported_workflows(skill, schemas),
        "sessions": sessions[:MOST],
        "removals": removals[:MOST],
        "more": max(len(sessions), len(removals)) > MOST,
        "entry": ClientEntries("claude", Path(), (kit.key,)).text.rstrip(),
    }
    texts = {
        TEXT: rendered("skills/skill.md.jinja", **values),
        GUIDE: rendered("skills/tool_guide.md.jinja", **values),
    }
    return seal({**OURS, **texts}, {"ralphgen": __version__, "kit": kit.key})


def _tool(
    plan: ServerPlan, kit: KitPlan, tool: PlannedTool, schema: Mapping[str, Any]
) -> dict[str, object]:
    """Return the data of one tool's section: its texts, arguments and the sessions that have it."""
    offered = {other.name for other in kit.tools}
    effect, effect_sentence = effect_of(tool)
    recipes = plan.policy.recipes
    seen_by = [name for name in recipes if tool.name in recipes[name].tools[kit.key]]
    needs = {name: need for name, need in tool.needs.items() if ":" in need}
    return {
        "name": tool.name,
        "description": tool.description,
        "purpose": tool.purpose,
        "answer": tool.answer,
        "instead": {name: what for name, what in tool.instead.items() if name in offered},
        "effect": effect,
        "effect_sentence": effect_sentence,
        "arguments": argument_rows(schema, needs),
        "recipes": "all" if len(seen_by) == len(recipes) else ", ".join(seen_by),
        "differences": differences(kit, tool, plan.policy),
    }


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
