"""Answers the requests on what clients read besides: prompts, resources and completion."""

from __future__ import annotations

from ..errors import INVALID_PARAMS, RefusedError, ToolError
from .tools import refuse_cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..kit import Resources
    from ..prompt import Prompt
    from .tools import Method, Params

MOST_VALUES = 100  # of one completion, by the protocol


def prompt_methods(prompts: Mapping[str, Prompt], workspace: Any) -> dict[str, Method]:
    """By the name of a request, what answers it from the session's prompts, by name."""

    def list_prompts(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        return {"prompts": [prompt.entry() for prompt in prompts.values()]}

    def get_prompt(params: Params) -> dict[str, Any]:
        given = params.get("arguments") or {}
        prompt = _named(prompts, params["name"], given)
        try:
            text = prompt.text(workspace, given)
        except ToolError as error:
            raise RefusedError(INVALID_PARAMS, str(error)) from error
        content = {"type": "text", "text": text}
        messages = [{"role": "user", "content": content}]
        return {"description": prompt.description, "messages": messages}

    return {"prompts/list": list_prompts, "prompts/get": get_prompt}


def resource_methods(resources: Resources, workspace: Any) -> dict[str, Method]:
    """By the name of a request, what answers it from the resources of a kit."""

    def list_resources(params: Params) -> dict[str, Any]:
        entries, cursor = resources.listed(workspace, params.get("cursor"))
        return {"resources": entries, **({"nextCursor": cursor} if cursor else {})}

    def list_templates(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        return {"resourceTemplates": [dict(entry) for entry in resources.templates]}

    def read(params: Params) -> dict[str, Any]:
        media_type, text = resources.read(workspace, params["uri"])
        return {"contents": [{"uri": params["uri"], "mimeType": media_type, "text": text}]}

    return {
        "resources/list": list_resources,
        "resources/templates/list": list_templates,
        "resources/read": read,
    }


def completion_method(
    resources: Resources, prompts: Mapping[str, Prompt], workspace: Any
) -> dict[str, Method]:
    """Return what completes the variables of templates and the arguments of prompts."""

    def complete(params: Params) -> dict[str, Any]:
        ref, argument = params["ref"], params["argument"]
        if ref["type"] == "ref/prompt":
            _named(prompts, ref["name"], [argument["name"]])
        template = ref.get("uri")
        values = resources.completed(workspace, template, argument["name"], argument["value"])
        completion = {
            "values": values[:MOST_VALUES],
            "total": len(values),
            "hasMore": len(values) > MOST_VALUES,
        }
        return {"completion": completion}

    return {"completion/complete": complete}


def _named(prompts: Mapping[str, Prompt], name: str, arguments: Iterable[str]) -> Prompt:
    """The prompt; raises `RefusedError` where there is none, or where it has no such argument."""
    if name not in prompts:
        raise RefusedError(INVALID_PARAMS, f'Unknown prompt: "{name}"')
    prompt = prompts[name]
    for argument in arguments:
        if argument not in prompt.arguments:
            text = f'the prompt "{name}" has no argument "{argument}"'
            raise RefusedError(INVALID_PARAMS, text)
    return prompt
