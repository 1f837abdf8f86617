"""What clients read besides calling tools: resources, prompts and the completion of both."""

from __future__ import annotations

import mcp.types as t
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from .errors import ToolError
from .turns import INVALID_PARAMS, Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .kit import Resources
    from .prompt import Prompt

Context = ServerRequestContext[None]
MOST_VALUES = 100  # of one completion, by the protocol


def refuse_cursor(params: t.PaginatedRequestParams) -> None:
    """Raise `MCPError` for any cursor, where a list has one page only."""
    if params.cursor is not None:
        raise MCPError(INVALID_PARAMS, f'Unknown cursor: "{params.cursor}"')


def offer_resources(
    server: Server[None], resources: Resources, workspace: Any, turns: Turns
) -> None:
    """Let clients list and read the resources of a kit."""
    templates = [t.ResourceTemplate.model_validate(entry) for entry in resources.templates]

    async def list_resources(_: Context, params: t.PaginatedRequestParams) -> t.ListResourcesResult:
        entries, cursor = await turns.run(lambda: resources.listed(workspace, params.cursor))
        return t.ListResourcesResult(
            resources=[t.Resource.model_validate(entry) for entry in entries],
            next_cursor=cursor or None,
        )

    async def list_templates(
        _: Context, params: t.PaginatedRequestParams
    ) -> t.ListResourceTemplatesResult:
        refuse_cursor(params)
        return t.ListResourceTemplatesResult(resource_templates=templates)

    async def read(_: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        uri = params.uri
        media_type, text = await turns.run(lambda: resources.read(workspace, uri), uri)
        contents = t.TextResourceContents(uri=uri, mime_type=media_type, text=text)
        return t.ReadResourceResult(contents=[contents])

    server.add_request_handler("resources/list", t.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", t.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", t.ReadResourceRequestParams, read)


def offer_prompts(
    server: Server[None], prompts: Sequence[Prompt], workspace: Any, turns: Turns
) -> None:
    """Let clients list the session's prompts and get their texts."""
    described = [t.Prompt.model_validate(prompt.entry()) for prompt in prompts]
    by_name = {prompt.name: prompt for prompt in prompts}

    async def list_prompts(_: Context, params: t.PaginatedRequestParams) -> t.ListPromptsResult:
        refuse_cursor(params)
        return t.ListPromptsResult(prompts=described)

    async def get_prompt(_: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        given = params.arguments or {}
        prompt = _named(by_name, params.name, given)
        text = await turns.run(lambda: _text(prompt, workspace, given))
        content = t.TextContent(type="text", text=text)
        message = t.PromptMessage(role="user", content=content)
        return t.GetPromptResult(description=prompt.description, messages=[message])

    server.add_request_handler("prompts/list", t.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", t.GetPromptRequestParams, get_prompt)


def offer_completion(
    server: Server[None],
    resources: Resources,
    prompts: Sequence[Prompt],
    workspace: Any,
    turns: Turns,
) -> None:
    """Let clients complete the variables of templates and the arguments of prompts."""
    by_name = {prompt.name: prompt for prompt in prompts}

    async def complete(_: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        argument, value = params.argument.name, params.argument.value
        template = None
        if isinstance(params.ref, t.PromptReference):
            _named(by_name, params.ref.name, [argument])
        else:
            template = params.ref.uri
        values = await turns.run(lambda: resources.completed(workspace, template, argument, value))
        completion = t.Completion(
            values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES
        )
        return t.CompleteResult(completion=completion)

    server.add_request_handler("completion/complete", t.CompleteRequestParams, complete)


def _named(
    prompts: Mapping[str, Prompt], name: str, arguments: Sequence[str] | Mapping[str, str]
) -> Prompt:
    """The prompt; raises `MCPError` where there is none, or where it has no such argument."""
    prompt = prompts.get(name)
    if prompt is None:
        raise MCPError(INVALID_PARAMS, f'Unknown prompt: "{name}"')
    for argument in arguments:
        if argument not in prompt.arguments:
            raise MCPError(INVALID_PARAMS, f'the prompt "{name}" has no argument "{argument}"')
    return prompt


def _text(prompt: Prompt, workspace: Any, given: Mapping[str, str]) -> str:
    try:
        return prompt.text(workspace, given)
    except ToolError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
