"""The tools on process knowledge: each call, on the starter documents and on two thousand."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from acm_projects import CAPABILITIES, KITS, PROJECT, YAML, lay_project, put
from driving import context_for, create_project, on_context
from figures import topic
from processes import Conversation, Server, conversation

from ralphgen.environment import INTERPRETER_OPTIONS
from ralphgen.kits.acm import corpus

pytestmark = pytest.mark.benchmark

WARM_UP = 5
ROUNDS = 60
MANY = 2_000
LINE = "What a project has learned about reviews, in a sentence of the usual length.\n"
ENTRY = "---\ntitle: Lesson {number}\ndescription: one\ntags: [a, b]\nupdated: '2026-02-01'\n---\n"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_stage", {"stage": "design"}),
    ("get_review_prompt", {"stage": "design", "phase": "internal"}),
    ("get_transition_prompt", {"transition": "discover_to_design"}),
    (
        "get_transition_prompt",
        {"transition": "discover_to_design", "validate": True, "project_path": "work"},
    ),
    ("get_artifact_spec", {"artifact": "brief"}),
    ("get_artifact_stub", {"artifact": "claude_md"}),
    ("get_project_type_guidance", {"type": "app", "scale": "personal", "scope": "mvp"}),
    ("check_project_structure", {"project_path": "work"}),
    ("check_project_health", {"project_path": "work"}),
    ("get_rules_spec", {}),
    ("get_context_spec", {"level": "project"}),
    ("query_capabilities", {}),
    ("query_capabilities", {"query": "xyzzy"}),
    ("get_capability_detail", {"capability_id": "planner-7"}),
    ("query_knowledge", {"query": "review"}),
    ("query_knowledge", {"query": "xyzzy"}),
)


def project(root: Path, *, many: bool) -> Path:
    """A project with the starter documents; with `many`, two thousand entries of each kind too."""
    create_project(root, config=KITS)
    lay_project(root / "work", PROJECT)
    folder = root / ".ralph/acm"
    for name, text in corpus().items():
        put(folder / name, text)
    number = MANY if many else 10
    entries = []
    for at in range(number):
        entry = CAPABILITIES[at % len(CAPABILITIES)]
        name, kind = f"{entry['name']}-{at}", entry["type"]
        path = f"capabilities/{kind}s/{name}"
        entries.append({**entry, "name": name, "path": path})
        put(folder / "registry" / path / "capability.yaml", YAML.format(name=name, kind=kind))
    put(folder / "registry/capabilities/agents/planner-7/capability.yaml", "name: planner-7\n")
    put(folder / "registry/inventory.json", json.dumps({"capabilities": entries}))
    for at in range(number if many else 0):
        put(folder / f"kb/lesson-{at}.md", ENTRY.format(number=at) + LINE * 40)
    return root


def timed(talk: Conversation, tool: str, arguments: dict[str, Any]) -> float:
    """Milliseconds of a call there and back."""
    begun = time.perf_counter()
    talk.call(tool, arguments)
    return (time.perf_counter() - begun) * 1000


@pytest.mark.parametrize("many", [False, True], ids=["starter", "two thousand"])
def test_every_call(tmp_path: Path, *, many: bool) -> None:
    root = project(tmp_path, many=many)
    context = on_context(context_for(root, "manual"))
    server = str(root / ".ralph" / "mcp" / "server.py")
    serving = Server("acm", (sys.executable, *INTERPRETER_OPTIONS, server, "acm", *context))
    title = f"Process knowledge over stdio, {f'{MANY:,} documents' if many else 'the starter'}"
    with topic(title) as table, conversation(serving) as talk:
        talk.shake_hands()
        for turn in range(WARM_UP + ROUNDS):
            for tool, arguments in CALLS:
                words = ", ".join(str(value) for value in arguments.values())
                taken = timed(talk, tool, arguments)
                if turn >= WARM_UP:
                    table.add(f"{tool}({words})", "call ms", taken)
