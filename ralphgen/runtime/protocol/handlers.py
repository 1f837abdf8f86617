"""Answers every request of one kit in one session, whichever transport carries it."""

from __future__ import annotations

from ..deferred import DeferredResult, settled, then
from ..encoding import write_json
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AskError,
    CodedError,
    DeferError,
    NotThereError,
    RefusedError,
    ToolError,
    log,
    log_exception,
)
from ..statements import in_child
from ..tool import named
from .messages import TASK_METHODS, TASKS_EXTENSION, half_pair, refuse_cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from ..kit import Kit, Prompt, Workspace
    from ..session import Session
    from ..tool import Tool
    from .answers import CallLog
    from .skills import ServedSkill

    Params = Mapping[str, Any]
    Answer = dict[str, Any] | DeferredResult
    Result = Answer | str
    Method = Callable[[Params], Answer]
    Given = TypeVar("Given")

INVALID_CODE = "VALIDATION_FAILED"  # the code of wrong arguments
LONGEST_LOGGED_NAME = 100  # characters of a tool that was called, in the log of calls
UNFORESEEN_CODE = "UNKNOWN_ERROR"  # the code of what went wrong inside


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

            add_schemas(entries, named(kit.answers))
        return {"tools": entries}

    def call_tool(params: Params) -> Answer:
        if session.folder is None:
            return called(params)
        if not logs:
            from .answers import CallLog

            logs.append(CallLog(session.folder, session.kit))
        return logs[0].recorded(params["name"][:LONGEST_LOGGED_NAME], lambda: called(params))

    def called(params: Params) -> Answer:
        tool = tools.get(params["name"])
        if tool is None:
            from ..values import shortened

            why = session.why_hidden(params["name"])
            text = f"Unknown tool: {shortened(params['name'])}: {why}"
            raise RefusedError(INVALID_PARAMS, text, f"The tools here: {', '.join(tools)}")
        if getattr(tool.function(), "states", "") in getattr(workspace, "own_code", ()):
            return _called_in_child(kit, tool.name, workspace, params)
        return _call(kit, tool, workspace, params, session)

    return {"tools/list": list_tools, "tools/call": call_tool}


def _call(kit: Kit, tool: Tool, workspace: Workspace, params: Params, session: Session) -> Answer:
    """Run one call, or begin it if its answer takes time, or ask the user."""

    def begin() -> Result:
        return tool.function()(
            workspace, tool.completed(_checked_arguments(kit, tool, params.get("arguments")))
        )

    is_structured = kit.is_structured(session)
    try:
        return _answer(kit, tool, begin, is_structured=is_structured)
    except AskError as error:
        from ..elicitation import answered_by_person, may_ask

        return answered_by_person(
            error,
            params if may_ask(session) else {},
            lambda: _answer(kit, tool, begin, is_structured=is_structured),
            lambda text: _result(_refusal_text(kit, ToolError(text)), failed=True),
        )


class ToolName:
    """The name of a tool; a child process finds the tool by it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@in_child
def calling(tool: ToolName) -> Callable[[Any, Any], Answer]:
    """Return a function that answers a call of a tool from the parameters of the request."""

    def run(workspace: Any, params: Params) -> Answer:
        session = workspace.session
        kit: Kit = __import__(session.kit).KIT
        found = session.tools([one for one in kit.tools if one.name == tool.name])
        return _call(kit, found[tool.name], workspace, params, session)

    return run


def _called_in_child(kit: Kit, name: str, workspace: Any, params: Params) -> Answer:
    """Begin one call in a child process, which answers it as `_called` does."""

    def refusing(work: Callable[[], Answer]) -> Answer:
        try:
            return work()
        except ToolError as error:
            return _result(_refusal_text(kit, error), failed=True)

    from ..values import decoded

    plain = {**params, "arguments": decoded({}, params.get("arguments"))}
    answer = refusing(lambda: calling(ToolName(name))(workspace, plain))
    if not isinstance(answer, DeferredResult):
        return answer
    outcome = answer.outcome
    return DeferredResult(
        lambda: settled(refusing(outcome)), answer.leave, finishes=answer.finishes
    )


def _answer(kit: Kit, tool: Tool, work: Callable[[], Result], *, is_structured: bool) -> Answer:
    """Return the outcome of a call.

    Every failure is returned as words, never as a traceback.
    """
    try:
        result = work()
        if isinstance(result, DeferredResult):
            outcome = result.outcome
            return DeferredResult(
                lambda: settled(_answer(kit, tool, outcome, is_structured=is_structured)),
                result.leave,
                finishes=result.finishes,
            )
        text = result if isinstance(result, str) else write_json(result)
        text.encode()
    except (AskError, DeferError, RefusedError):
        raise
    except ToolError as error:
        if kit.logs_refusals:
            log("error", kit.server_name, {"tool": tool.name, "error": str(error)})
        return _result(_refusal_text(kit, error), failed=True)
    except Exception:
        log_exception(kit.server_name, tool=tool.name)
        text = (
            f'"{tool.name}" failed inside the server: continue without it and tell the user; '
            "see the server's log"
        )
        return _result(_refusal_text(kit, CodedError(UNFORESEEN_CODE, text)), failed=True)
    answer = _result(text, failed=False)
    if is_structured and not isinstance(result, str):
        answer["structuredContent"] = result
    return answer


def _refusal_text(kit: Kit, error: ToolError) -> str:
    """Return a failure as text for an agent: a sentence, or an object if the kit uses them."""
    if kit.refusals != "object":
        return str(error)
    code, facts = (error.code, error.facts) if isinstance(error, CodedError) else (INVALID_CODE, {})
    return write_json({"status": "error", "error": {"code": code, "message": str(error), **facts}})


def _checked_arguments(kit: Kit, tool: Tool, given: object) -> dict[str, object]:
    """Return the arguments of a call.

    Wrong ones are an error of the protocol if the kit treats them so.
    """
    from ..values import check_arguments

    try:
        _refuse_half_pairs(given)
        return check_arguments(tool.input_schema(), given, tool.refusals)
    except ToolError as error:
        if kit.refusals == "error":
            takes = ", ".join(tool.input_schema()["properties"]) or "no arguments"
            data = f"The arguments of '{tool.name}': {takes}"
            raise RefusedError(INVALID_PARAMS, str(error), data) from error
        raise


def _refuse_half_pairs(given: object) -> None:
    """Raise `ToolError` for half a character, which a client may send after cutting a text."""
    half = half_pair(given)
    if half:
        text = f"the arguments hold {half}, half of a surrogate pair: send well-formed Unicode"
        raise ToolError(text)


def _result(text: str, *, failed: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


LISTEN_METHODS = ("resources/subscribe", "resources/unsubscribe", "subscriptions/listen")
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
SKILL_SCHEME = "skill://"
BROKEN_REQUEST = "the request failed inside the server: tell the user; see the server's log"
MOST_COMPLETIONS = 100  # of one completion, by the protocol


class Handlers:
    """One kit in one session, without a protocol around it.

    `methods` maps the name of each request to its function. The function takes the request's
    parameters, which have the right shape, and returns its result or a `DeferredResult`. It raises
    `RefusedError`, and `DeferError` on the thread that reads requests. `listening` are the other
    requests, for clients that listen to changes. The server declares `capabilities` and
    `instructions`; in the stateless version, which has extensions, it declares
    `stateless_capabilities`.
    """

    __slots__ = (
        "_reading",
        "capabilities",
        "instructions",
        "kit",
        "listening",
        "long_tools",
        "methods",
        "stateless_capabilities",
        "version",
        "workspace",
    )

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
        seen = [*tools.values()]
        self._reading = frozenset(tool.name for tool in seen if tool.hints.get("readOnlyHint"))
        self.listening = LISTEN_METHODS if kit.resources else ()
        self.instructions = kit.instructions(session, seen)
        methods: dict[str, Method] = tool_methods(kit, session, tools, workspace)
        capabilities: dict[str, Any] = {"tools": {}}
        prompts = {}
        if kit.prompts is not None:
            prompts = {prompt.name: prompt for prompt in kit.prompts(session, seen)}
            methods |= prompt_methods(prompts, workspace)
            capabilities["prompts"] = {}
        if kit.resources:
            methods |= resource_methods(kit, workspace)
            methods |= completion_method(kit, prompts, workspace)
            capabilities |= {"resources": {"subscribe": True}, "completions": {}}
        self.capabilities = self.stateless_capabilities = capabilities
        self.long_tools = frozenset(tool.name for tool in seen if tool.hints.get("openWorldHint"))
        if kit.skill and tools:
            methods |= skill_methods(kit, session.kit, tools, methods)
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
        except NotThereError as error:
            raise RefusedError(INVALID_PARAMS, str(error), data or {"method": request}) from error
        except ToolError as error:
            raise RefusedError(INTERNAL_ERROR, str(error), data) from error
        except Exception as error:
            log_exception(logger, request=request, **(data or {}))
            raise RefusedError(INTERNAL_ERROR, BROKEN_REQUEST, data) from error

    return answer


def prompt_methods(prompts: Mapping[str, Prompt], workspace: Any) -> dict[str, Method]:
    """Return, by the name of a request, what answers it from the session's prompts, by name."""

    def list_prompts(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        return {"prompts": [prompt.entry() for prompt in prompts.values()]}

    def get_prompt(params: Params) -> dict[str, Any]:
        given = params.get("arguments") or {}
        prompt = _find_prompt(prompts, params["name"], given)
        try:
            text = prompt.text(workspace, given)
        except ToolError as error:
            data = {"prompt": params["name"]}
            raise RefusedError(INVALID_PARAMS, str(error), data) from error
        content = {"type": "text", "text": text}
        messages = [{"role": "user", "content": content}]
        return {"description": prompt.description, "messages": messages}

    return {"prompts/list": list_prompts, "prompts/get": get_prompt}


def resource_methods(kit: Kit, workspace: Any) -> dict[str, Method]:
    """Return, by the name of a request, what answers it from the resources of a kit."""

    def list_resources(params: Params) -> dict[str, Any]:
        entries, cursor = kit.import_resources().listed(workspace, params.get("cursor"))
        return {"resources": entries, **({"nextCursor": cursor} if cursor else {})}

    def list_templates(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        entries = kit.import_resources().templates(workspace)
        return {"resourceTemplates": [dict(entry) for entry in entries]}

    def read(params: Params) -> Answer:
        def contents(found: tuple[str, str]) -> dict[str, Any]:
            media_type, text = found
            return {"contents": [{"uri": params["uri"], "mimeType": media_type, "text": text}]}

        answer: Answer = then(kit.import_resources().read(workspace, params["uri"]), contents)
        return answer

    return {
        "resources/list": list_resources,
        "resources/templates/list": list_templates,
        "resources/read": read,
    }


def skill_methods(
    kit: Kit, key: str, tools: Mapping[str, Tool], methods: Mapping[str, Method]
) -> dict[str, Method]:
    """Return what serves the kit's Agent Skill, which is made when a client first asks for it.

    Of the `methods` that there are, those on resources are taken in; a kit without resources has
    no others, and lists none: a skill is found by `skills/list`.
    """
    made: list[ServedSkill] = []
    others = methods.get("resources/read")

    def skill() -> ServedSkill:
        if not made:
            from .skills import ServedSkill

            words = __import__(kit.skill, None, None, ["SKILL"]).SKILL
            made.append(ServedSkill(words, key, tools))
        return made[0]

    def read(params: Params) -> Answer:
        if others is None or params["uri"].startswith(SKILL_SCHEME):
            return skill().read(params)
        return others(params)

    def listed(name: str) -> Method:
        def list_nothing(params: Params) -> dict[str, Any]:
            refuse_cursor(params)
            return {name: []}

        return list_nothing

    return {
        "resources/list": listed("resources"),
        "resources/templates/list": listed("resourceTemplates"),
        **methods,
        "resources/read": read,
        "skills/list": lambda params: skill().listed(params),
        "skills/get": lambda params: skill().entry(params),
    }


def completion_method(kit: Kit, prompts: Mapping[str, Prompt], workspace: Any) -> dict[str, Method]:
    """Return what completes the variables of templates and the arguments of prompts."""

    def complete(params: Params) -> Answer:
        ref, argument = params["ref"], params["argument"]
        if ref["type"] == "ref/prompt":
            _find_prompt(prompts, ref["name"], [argument["name"]])
        template = ref.get("uri")
        resources = kit.import_resources()
        found = resources.completed(workspace, template, argument["name"], argument["value"])
        answer: Answer = then(found, completion)
        return answer

    def completion(values: list[str]) -> dict[str, Any]:
        first = {"values": values[:MOST_COMPLETIONS], "total": len(values)}
        return {"completion": {**first, "hasMore": len(values) > MOST_COMPLETIONS}}

    return {"completion/complete": complete}


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
