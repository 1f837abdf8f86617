"""What a server answers, whoever carries it: every request of one kit in one session."""

from __future__ import annotations

from ..deferred import DeferredResult, then
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    DeferError,
    NotThereError,
    RefusedError,
    ToolError,
    log_exception,
)
from .messages import TASKS, TASKS_EXTENSION
from .tools import refuse_cursor, tool_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from ..kit import Kit, Prompt, Workspace
    from ..session import Session
    from ..tool import Tool
    from .skills import ServedSkill
    from .tools import Answer, Method, Params

    Given = TypeVar("Given")

LISTENING = ("resources/subscribe", "resources/unsubscribe", "subscriptions/listen")
EXTENSION = "io.modelcontextprotocol/skills"
SKILLS = "skill://"
BROKEN = "the request failed inside the server: tell the user; see the server's log"
MOST_VALUES = 100  # of one completion, by the protocol


class Handlers:
    """One kit in one session, without a protocol around it.

    `methods` holds, by the name of each request, the function that takes the request's parameters,
    which have the right shape, and returns its result, or what waits for it; it raises
    `RefusedError`, and `DeferError` on the thread that reads requests. `listening` are the requests
    besides by which clients hear of changes.
    The server declares `capabilities` and `instructions`; in the stateless version, which has
    extensions, it declares `stateless_capabilities`.
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
        self.listening = LISTENING if kit.resources else ()
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
            self._extend(EXTENSION)
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
        """Answer every call as long as it takes: nobody can ask after one."""
        self.long_tools = frozenset()
        extensions = {**self.stateless_capabilities.get("extensions", {})}
        if extensions.pop(TASKS_EXTENSION, None) is not None:
            self.stateless_capabilities = {**self.stateless_capabilities, "extensions": extensions}

    def answers(self, method: str) -> bool:
        """Return whether a request is one that this server has."""
        known = method in self.methods or method in self.listening
        return known or (method in TASKS and bool(self.long_tools))

    def only_reads(self, method: str, params: Params) -> bool:
        """Return whether a request changes nothing."""
        return method != "tools/call" or params["name"] in self._reading


def guarded(
    logger: str, request: str, method: Callable[[Params], Given]
) -> Callable[[Params], Given]:
    """Return the method, with whatever goes wrong in it as a `RefusedError`, also later.

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
            raise RefusedError(INTERNAL_ERROR, BROKEN, data) from error

    return answer


def prompt_methods(prompts: Mapping[str, Prompt], workspace: Any) -> dict[str, Method]:
    """Return, by the name of a request, what answers it from the session's prompts, by name."""

    def list_prompts(params: Params) -> dict[str, Any]:
        refuse_cursor(params)
        return {"prompts": [prompt.entry() for prompt in prompts.values()]}

    def get_prompt(params: Params) -> dict[str, Any]:
        given = params.get("arguments") or {}
        prompt = _named(prompts, params["name"], given)
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
        if others is None or params["uri"].startswith(SKILLS):
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
            _named(prompts, ref["name"], [argument["name"]])
        template = ref.get("uri")
        resources = kit.import_resources()
        found = resources.completed(workspace, template, argument["name"], argument["value"])
        answer: Answer = then(found, completion)
        return answer

    def completion(values: list[str]) -> dict[str, Any]:
        first = {"values": values[:MOST_VALUES], "total": len(values)}
        return {"completion": {**first, "hasMore": len(values) > MOST_VALUES}}

    return {"completion/complete": complete}


def _named(prompts: Mapping[str, Prompt], name: str, arguments: Iterable[str]) -> Prompt:
    """Return the prompt.

    Raises `RefusedError` where there is none, or where it has no such argument.
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
