"""Renders the folder of the plugin for Claude Code: skills, commands, hooks and what names them."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib import resources
from pathlib import Path

from ralphgen import __version__
from ralphgen.files import Files, seal
from ralphgen.planning.model import ServerPlan
from ralphgen.rendering.templates import rendered
from ralphgen.skills import GUIDE, TEXT, render_skills

FOLDER = ".ralph/plugin"
NAME = "ralphgen"
TASKS = "ralph"  # the kit that has tasks, which the commands are about
OURS = {
    ".gitattributes": "* text eol=lf\nmanifest.json linguist-generated\n",
    ".gitignore": "/.lock\n/.new/\n/.commit/\n__pycache__/\n",
}
CHECK = "check"  # the command that only projects with checks have
COMMANDS = {
    "next": "command_next.md.jinja",
    "brief": "command_brief.md.jinja",
    CHECK: "command_check.md.jinja",
    "done": "command_done.md.jinja",
}
LEFT_ALONE = {".prettierrc": "prettierrc.jinja", "ruff.toml": "ruff.toml.jinja"}  # by formatters
ABOUT = "The project's tasks and tools, and guardrails for its sessions."
HOOKS = (
    "plugin/hooks/gate.py",
    "plugin/hooks/governing.py",
    "runtime/files/main_tree.py",
    "runtime/files/protection.py",
)
GATE = "gate.py"
WATCHED = "^(Edit|MultiEdit|NotebookEdit|Write|mcp__.*)$"  # the tools that a session may not have
SECONDS = 30  # for a hook; one that was not ready by then has failed
_BESIDE = re.compile(r"(?m)^from ralphgen\.(?:plugin\.hooks|runtime\.files)\.(\w+) import ")


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
    version = f"{__version__}+{digest.hexdigest()[:12]}"  # so that an installed copy is seen as old
    texts[".claude-plugin/plugin.json"] = _json(
        {"name": NAME, "version": version, "description": ABOUT, "author": {"name": NAME}}
    )
    texts[".claude-plugin/marketplace.json"] = _json(
        {
            "name": NAME,
            "description": ABOUT,
            "owner": {"name": NAME},
            "plugins": [{"name": NAME, "description": ABOUT, "source": "./"}],
        }
    )
    return seal({**OURS, **texts}, {"ralphgen": __version__})


def _hooks() -> dict[str, object]:
    """Return which events ask the gate; a failure before a call is a denial.

    Claude Code heeds `onFailure` from 2.1.295 on, and not where a session stops: none is held for
    ever by a hook that fails.
    """
    before = {"matcher": WATCHED, "hooks": [{**_asking("PreToolUse"), "onFailure": "block"}]}
    stops = {event: [{"hooks": [_asking(event)]}] for event in ("Stop", "SubagentStop")}
    return {"PreToolUse": [before], **stops}


def _asking(event: str) -> dict[str, object]:
    """Return the hook that starts our program, without a shell and without a site of its own."""
    program = f"${{CLAUDE_PLUGIN_ROOT}}/hooks/{GATE}"
    arguments = ["-E", "-s", "-S", "-B", program, event]
    return {"type": "command", "command": "python3", "args": arguments, "timeout": SECONDS}


def _programs() -> Iterator[tuple[str, str]]:
    """Yield the hooks' modules, which import each other as what lies beside them."""
    for source in HOOKS:
        text = resources.files("ralphgen").joinpath(source).read_text(encoding="utf-8")
        yield f"hooks/{Path(source).name}", _BESIDE.sub(r"from \1 import ", text)


def _commands(plan: ServerPlan) -> Iterator[tuple[str, str]]:
    """Yield the slash commands, as far as the project has what they are about."""
    if all(kit.key != TASKS for kit in plan.kits):
        return
    checks = bool(plan.facts["config"].get("done"))
    for name, template in COMMANDS.items():
        if checks or name != CHECK:
            yield f"commands/{name}.md", rendered(template, checks=checks)


def _skills(plan: ServerPlan) -> Iterator[tuple[str, str]]:
    for skill in render_skills(plan, f"{FOLDER}/skills"):
        yield from ((f"skills/{skill.name}/{path}", skill.files[path]) for path in (TEXT, GUIDE))


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
