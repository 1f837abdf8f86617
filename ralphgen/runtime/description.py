"""Describes a session's view of a kit, for `--describe`."""

from __future__ import annotations

import json

from .deferred import settled
from .errors import RefusedError, StartError, ToolError
from .tool import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .protocol.handlers import Handlers
    from .tool import Tool


def described(handlers: Handlers, seen: Sequence[Tool]) -> str:
    """Return a session's view of a kit as JSON: `tools`, `instructions`, `prompts` as text.

    A kit with a brief adds `brief`. Raises `StartError` if a prompt or the brief cannot be made.
    """

    def told_by(method: str, params: dict[str, str]) -> dict[str, Any]:
        return settled(handlers.methods[method](params))

    prompts = told_by("prompts/list", {})["prompts"] if "prompts/list" in handlers.methods else []
    try:
        texts = [told_by("prompts/get", {"name": prompt["name"]}) for prompt in prompts]
        make = handlers.kit.brief
        brief = {"brief": named(make)(handlers.workspace, seen)} if make else {}
    except (RefusedError, ToolError) as error:
        raise StartError(str(error)) from error
    told = [
        {**prompt, "text": text["messages"][0]["content"]["text"]}
        for prompt, text in zip(prompts, texts, strict=True)
    ]
    tools = told_by("tools/list", {})["tools"]
    facts = {"tools": tools, "instructions": handlers.instructions, "prompts": told, **brief}
    return json.dumps(facts) + "\n"
