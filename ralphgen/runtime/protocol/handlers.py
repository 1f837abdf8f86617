"""What a server answers, whoever carries it: every request of one kit in one session."""

from __future__ import annotations

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    DeferToSdkError,
    NotThereError,
    RefusedError,
    ToolError,
)
from ..log import log_exception
from .resources import completion_method, prompt_methods, resource_methods
from .tools import tool_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from ..kit import Kit, Workspace
    from ..session import Session
    from ..tool import Tool
    from .tools import Method, Params

    Given = TypeVar("Given")

BROKEN = "the request failed inside the server: tell a person; the server's log says why"


class Handlers:
    """One kit in one session, without a protocol around it.

    `methods` holds, by the name of each request, the function that takes the request's parameters,
    which have the right shape, and returns its result, or what waits for it; it raises
    `RefusedError`, and `DeferToSdkError` before the fast path's deadline.
    `capabilities` and `instructions` are what the server says of itself.
    """

    __slots__ = ("capabilities", "instructions", "kit", "methods", "version", "workspace")

    def __init__(
        self,
        kit: Kit,
        session: Session,
        tools: Mapping[str, Tool],
        workspace: Workspace,
        version: str,
    ) -> None:
        self.kit = kit
        self.workspace = workspace
        self.version = version
        seen = [*tools.values()]
        self.instructions = kit.instructions(session, seen)
        methods: dict[str, Method] = tool_methods(kit, session, tools, workspace)
        capabilities: dict[str, Any] = {"tools": {}}
        prompts = {}
        if kit.prompts is not None:
            prompts = {prompt.name: prompt for prompt in kit.prompts(session, seen)}
            methods |= prompt_methods(prompts, workspace)
            capabilities["prompts"] = {}
        if kit.resources is not None:
            methods |= resource_methods(kit.resources, workspace)
            methods |= completion_method(kit.resources, prompts, workspace)
            capabilities |= {"resources": {"subscribe": True}, "completions": {}}
        self.capabilities = capabilities
        self.methods = {
            name: guarded(kit.server_name, name, method) for name, method in methods.items()
        }


def guarded(
    logger: str, request: str, method: Callable[[Params], Given]
) -> Callable[[Params], Given]:
    """The method, with whatever goes wrong in it as a `RefusedError`; the unforeseen is logged."""

    def answer(params: Params) -> Given:
        data = {"uri": params["uri"]} if "uri" in params else None
        try:
            return method(params)
        except (DeferToSdkError, RefusedError):
            raise
        except NotThereError as error:
            raise RefusedError(INVALID_PARAMS, str(error), data) from error
        except ToolError as error:
            raise RefusedError(INTERNAL_ERROR, str(error), data) from error
        except Exception as error:
            log_exception(logger, request=request, **(data or {}))
            raise RefusedError(INTERNAL_ERROR, BROKEN, data) from error

    return answer
