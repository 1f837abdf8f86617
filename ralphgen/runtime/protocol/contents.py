"""Answers requests for prompts, resources, skills and completions of one kit in one session.

Each function takes the parameters of the request, which have the right shape, and returns its
result. It raises `RefusedError`, or an error that the caller turns into one.
"""

from __future__ import annotations

from ..deferred import then
from ..errors import INVALID_PARAMS, RefusedError, ToolError
from ..tool import named
from .messages import refuse_cursor
from .skills import ServedSkill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..kit import Kit
    from ..prompt import Prompt
    from ..session import Session
    from ..tool import Tool
    from .handlers import Answer, Method, Params

SKILL_SCHEME = "skill://"
MOST_COMPLETIONS = 100  # of one completion, by the protocol


def list_prompts(params: Params, kit: Kit, session: Session, tools: Sequence[Tool]) -> Answer:
    """Return the session's prompts."""
    refuse_cursor(params)
    return {"prompts": [prompt.entry() for prompt in _prompts(kit, session, tools).values()]}


def get_prompt(
    params: Params, workspace: Any, kit: Kit, session: Session, tools: Sequence[Tool]
) -> Answer:
    """Return a prompt as a message of the user."""
    prompts = _prompts(kit, session, tools)
    given = params.get("arguments") or {}
    prompt = _find_prompt(prompts, params["name"], given)
    try:
        text = prompt.text(workspace, given)
    except ToolError as error:
        data = {"prompt": params["name"]}
        raise RefusedError(INVALID_PARAMS, str(error), data) from error
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"description": prompt.description, "messages": messages}


def list_resources(params: Params, kit: Kit, workspace: Any) -> Answer:
    """Return a page of the kit's resources."""
    entries, cursor = kit.import_resources().listed(workspace, params.get("cursor"))
    return {"resources": entries, **({"nextCursor": cursor} if cursor else {})}


def list_templates(params: Params, kit: Kit, workspace: Any) -> Answer:
    """Return the URI templates of the kit's resources."""
    refuse_cursor(params)
    entries = kit.import_resources().templates(workspace)
    return {"resourceTemplates": [dict(entry) for entry in entries]}


def read_resource(params: Params, kit: Kit, workspace: Any) -> Answer:
    """Return the content of a resource."""

    def contents(found: tuple[str, str]) -> dict[str, Any]:
        media_type, text = found
        return {"contents": [{"uri": params["uri"], "mimeType": media_type, "text": text}]}

    answer: Answer = then(kit.import_resources().read(workspace, params["uri"]), contents)
    return answer


def complete(
    params: Params, workspace: Any, kit: Kit, session: Session, tools: Sequence[Tool]
) -> Answer:
    """Return values for a variable of a template or an argument of a prompt."""
    ref, argument = params["ref"], params["argument"]
    if ref["type"] == "ref/prompt":
        _find_prompt(_prompts(kit, session, tools), ref["name"], [argument["name"]])
    resources = kit.import_resources()
    found = resources.completed(workspace, ref.get("uri"), argument["name"], argument["value"])

    def completion(values: list[str]) -> dict[str, Any]:
        first = {"values": values[:MOST_COMPLETIONS], "total": len(values)}
        return {"completion": {**first, "hasMore": len(values) > MOST_COMPLETIONS}}

    answer: Answer = then(found, completion)
    return answer


def list_skills(params: Params, *skill: Any) -> Answer:
    """Return the kit's Agent Skill."""
    return _served(*skill).listed(params)


def get_skill(params: Params, *skill: Any) -> Answer:
    """Return the entry of the kit's Agent Skill."""
    return _served(*skill).entry(params)


def read_also_skill(params: Params, others: Method | None, *skill: Any) -> Answer:
    """Return a file of the skill, or the content of another resource if there are `others`."""
    if others is None or params["uri"].startswith(SKILL_SCHEME):
        return _served(*skill).read(params)
    return others(params)


def list_nothing(params: Params, name: str) -> Answer:
    """Return an empty list: a client finds a skill by `skills/list`."""
    refuse_cursor(params)
    return {name: []}


def _served(kit: Kit, key: str, tools: Mapping[str, Tool], made: list[ServedSkill]) -> ServedSkill:
    """Return the skill; the first request makes it."""
    if not made:
        words = __import__(kit.skill, None, None, ["SKILL"]).SKILL
        made.append(ServedSkill(words, key, tools))
    return made[0]


def _prompts(kit: Kit, session: Session, tools: Sequence[Tool]) -> Mapping[str, Prompt]:
    made = named(kit.prompts)(session, tools) if kit.prompts else ()
    return {prompt.name: prompt for prompt in made}


def _find_prompt(prompts: Mapping[str, Prompt], name: str, arguments: Iterable[str]) -> Prompt:
    """Return the prompt.

    Raises `RefusedError` if there is none, or if it has no such argument.
    """
    if name not in prompts:
        hint = "Use 'prompts/list' to see the prompts"
        raise RefusedError(INVALID_PARAMS, f'Unknown prompt: "{name}"', hint)
    prompt = prompts[name]
    for argument in arguments:
        if argument not in prompt.arguments:
            text = f'the prompt "{name}" has no argument "{argument}"'
            data = f"The arguments of the prompt: {', '.join(prompt.arguments) or 'none'}"
            raise RefusedError(INVALID_PARAMS, text, data)
    return prompt
