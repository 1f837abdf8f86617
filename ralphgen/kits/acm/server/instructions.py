"""The instructions of the server: what each of its tools is for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tool import Tool

# What is said of each tool that is there, in the order in which a project needs them.
SAID = {
    "get_stage": "get_stage: what a stage (discover, design, develop) asks for.",
    "get_project_type_guidance": "get_project_type_guidance: what a type of project needs.",
    "get_artifact_spec": "get_artifact_spec: what a valid artifact looks like.",
    "get_artifact_stub": "get_artifact_stub: a template to begin one with.",
    "get_rules_spec": "get_rules_spec: what belongs in .claude/rules/.",
    "get_context_spec": "get_context_spec: what belongs in CLAUDE.md.",
    "check_project_structure": "check_project_structure: which folders and files are missing.",
    "check_project_health": "check_project_health: that, front matter and required sections.",
    "get_review_prompt": "get_review_prompt: the prompt for an internal or external review.",
    "get_transition_prompt": (
        "get_transition_prompt: how to enter the next stage; validate=true checks first."
    ),
    "query_capabilities": "query_capabilities: skills, tools, agents and plugins for a task.",
    "get_capability_detail": "get_capability_detail: everything on one of them.",
    "query_knowledge": "query_knowledge: what earlier projects have learned.",
}


def instructions(_session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    seen = {tool.name for tool in tools}
    first = "Process knowledge: how a project goes through its stages. Every tool only reads."
    if not seen:
        return f"{first} This session has no tools here."
    return "\n".join([first, *(text for name, text in SAID.items() if name in seen)])
