"""Answers every request of one kit in one session, whichever transport carries it."""

from __future__ import annotations

from ..deferred import DeferredResult
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    DeferError,
    RefusedError,
    ToolError,
    log_exception,
)
from ..kit import import_name
from . import TASK_METHODS, TASKS_EXTENSION, refuse_cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from ..kit import Kit, Tool, Workspace
    from ..session import Session
    from .answers import CallLog

    Params = Mapping[str, Any]
    Answer = dict[str, Any] | DeferredResult
    Result = Answer | str
    Method = Callable[[Params], Answer]
    Given = TypeVar("Given")

LONGEST_LOGGED_NAME = 100  # characters of a tool that was called, in the log of calls


def tool_methods(
    kit: Kit, session: Session, tools: Mapping[str, Tool], workspace: Workspace
) -> dict[str, Method]:
    """Return, by the name of a request, what answers it.

    `tools` guards both the list and the calls. A session that has a folder keeps a log of these.
    """
    logs: list[CallLog] = []

    def list_tools(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        entries = [tool.entry() for tool in tools.values()]
        if kit.answers and kit.is_structured(session):
            from .answers import add_schemas

            add_schemas(entries, import_name(kit.answers))
        return {"tools": entries}

    def call_tool(params: Params) -> Answer:
        if session.folder is None:
            return called(params)
        if not logs:
            from .answers import CallLog

            logs.append(CallLog(session.folder, session.kit))
        return logs[0].recorded(params["name"][:LONGEST_LOGGED_NAME], lambda: called(params))

    def called(params: Params) -> Answer:
        from .calls import answer_call

        return answer_call(kit, session, tools, workspace, params)

    return {"tools/list": list_tools, "tools/call": call_tool}


LISTEN_METHODS = ("resources/subscribe", "resources/unsubscribe", "subscriptions/listen")
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
BROKEN_REQUEST = "the request failed inside the server: tell the user; see the server's log"


def _later(function: str, *context: Any) -> Method:
    """Return what answers requests by a function of `calls`; the first request imports it."""

    def answer(params: Params) -> Answer:
        from . import calls

        found: Answer = getattr(calls, function)(params, *context)
        return found

    return answer


class Handlers:
    """One kit in one session, without a protocol around it.

    `methods` maps the name of each request to its function. The function takes the request's
    parameters, which have the right shape, and returns its result or a `DeferredResult`. It raises
    `RefusedError`, and `DeferError` on the thread that reads requests. `listening` are the other
    requests, for clients that listen to changes. The server declares `capabilities` and
    `instructions`; in the stateless version, which has extensions, it declares
    `stateless_capabilities`. `seen` are the session's tools.
    """

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
        self.version = kit.version or version
        self.seen = seen = [*tools.values()]
        self._reading = frozenset(tool.name for tool in seen if tool.hints.get("readOnlyHint"))
        self.listening = LISTEN_METHODS if kit.resources else ()
        self.instructions = kit.instructions(session, seen)
        methods: dict[str, Method] = tool_methods(kit, session, tools, workspace)
        capabilities: dict[str, Any] = {"tools": {}}
        prompts = (kit, session, seen)
        if kit.prompts:
            methods["prompts/list"] = _later("list_prompts", *prompts)
            methods["prompts/get"] = _later("get_prompt", workspace, *prompts)
            capabilities["prompts"] = {}
        if kit.resources:
            methods["resources/list"] = _later("list_resources", kit, workspace)
            methods["resources/templates/list"] = _later("list_templates", kit, workspace)
            methods["resources/read"] = _later("read_resource", kit, workspace)
            methods["completion/complete"] = _later("complete", workspace, *prompts)
            capabilities |= {"resources": {"subscribe": True}, "completions": {}}
        self.capabilities = self.stateless_capabilities = capabilities
        self.long_tools = frozenset(tool.name for tool in seen if tool.hints.get("openWorldHint"))
        if kit.skill and tools:
            skill: tuple[Any, ...] = (kit, session.kit, tools, [])
            methods.setdefault("resources/list", _later("list_nothing", "resources"))
            templates = _later("list_nothing", "resourceTemplates")
            methods.setdefault("resources/templates/list", templates)
            others = methods.get("resources/read")
            methods["resources/read"] = _later("read_also_skill", others, *skill)
            methods["skills/list"] = _later("list_skills", *skill)
            methods["skills/get"] = _later("get_skill", *skill)
            self.stateless_capabilities = {"resources": {}, **capabilities}
            self._extend(SKILLS_EXTENSION)
        if self.long_tools:
            self._extend(TASKS_EXTENSION)
        self.methods = {
            name: guarded(kit.server_name, name, method) for name, method in methods.items()
        }

    def _extend(self, extension: str) -> None:
        """Say of an extension that the server has it."""
        there = self.stateless_capabilities.get("extensions", {})
        extended = {"extensions": {**there, extension: {}}}
        self.stateless_capabilities = {**self.stateless_capabilities, **extended}

    def without_tasks(self) -> None:
        """Answer every call as long as it takes: no client can ask after one."""
        self.long_tools = frozenset()
        extensions = {**self.stateless_capabilities.get("extensions", {})}
        if extensions.pop(TASKS_EXTENSION, None) is not None:
            self.stateless_capabilities = {**self.stateless_capabilities, "extensions": extensions}

    def answers(self, method: str) -> bool:
        """Return whether this server supports a request."""
        known = method in self.methods or method in self.listening
        return known or (method in TASK_METHODS and bool(self.long_tools))

    def only_reads(self, method: str, params: Params) -> bool:
        """Return whether a request changes nothing."""
        return method != "tools/call" or params["name"] in self._reading


def guarded(
    logger: str, request: str, method: Callable[[Params], Given]
) -> Callable[[Params], Given]:
    """Return the method, with any failure in it as a `RefusedError`, also later.

    The unforeseen is logged.
    """

    def answer(params: Params) -> Any:
        data = {"uri": params["uri"]} if "uri" in params else None
        try:
            found = method(params)
            if not isinstance(found, DeferredResult):
                return found
            outcome = guarded(logger, request, lambda _: found.outcome())
            return DeferredResult(lambda: outcome(params), found.leave, finishes=found.finishes)
        except (DeferError, RefusedError):
            raise
        except ToolError as error:
            from ..errors import NotThereError

            if isinstance(error, NotThereError):
                told = data or {"method": request}
                raise RefusedError(INVALID_PARAMS, str(error), told) from error
            raise RefusedError(INTERNAL_ERROR, str(error), data) from error
        except Exception as error:
            log_exception(logger, request=request, **(data or {}))
            raise RefusedError(INTERNAL_ERROR, BROKEN_REQUEST, data) from error

    return answer
