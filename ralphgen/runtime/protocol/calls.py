"""Answers `tools/call`: checks the arguments, runs the tool, and words its failures."""

from __future__ import annotations

from ..deferred import DeferredResult, settled
from ..encoding import write_json
from ..errors import (
    INVALID_PARAMS,
    DeferError,
    RefusedError,
    ToolError,
    log,
    log_exception,
)
from ..failures import AskError, CodedError
from ..statements import in_child
from .messages import half_pair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..kit import Kit, Workspace
    from ..session import Session
    from ..tool import Tool
    from .handlers import Answer, Params

    Result = dict[str, Any] | DeferredResult | str

INVALID_CODE = "VALIDATION_FAILED"  # the code of wrong arguments
UNFORESEEN_CODE = "UNKNOWN_ERROR"  # the code of what went wrong inside


def answer_call(
    kit: Kit, session: Session, tools: Mapping[str, Tool], workspace: Workspace, params: Params
) -> Answer:
    """Answer a call of a tool of the session; raises `RefusedError` for any other name."""
    tool = tools.get(params["name"])
    if tool is None:
        from ..values import shortened

        why = session.why_hidden(params["name"])
        text = f"Unknown tool: {shortened(params['name'])}: {why}"
        raise RefusedError(INVALID_PARAMS, text, f"The tools here: {', '.join(tools)}")
    states = getattr(tool.function(), "states", "")
    try:
        runs_own_code = states != "" and states in getattr(workspace, "own_code", ())
    except ToolError as error:
        return _result(_refusal_text(kit, error), failed=True)
    if runs_own_code:
        return _called_in_child(kit, tool.name, workspace, params)
    return _call(kit, tool, workspace, params, session)


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
