"""Answers calls of tools, and requests for prompts, resources, skills and completions.

The functions of requests take the parameters, which have the right shape, and return the result.
They raise `RefusedError`, or an error that the caller turns into one.

The module serves a kit's Agent Skill to one session, by the skills extension of the protocol
(https://github.com/modelcontextprotocol/ext-skills, SEP-2640). Its files are resources, and its
entry holds their digests. They describe the tools of the session, so they do not change while the
server lives.

Lines that are not messages are answered as JSON-RPC has it: with the problem and the id.
"""

from __future__ import annotations

import json
import re

from ..deferred import DeferredResult, settled, then
from ..encoding import BLANKS, NESTED, JsonReader, sha256_hex, too_deep, write_json
from ..errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    AskError,
    CodedError,
    DeferError,
    NotThereError,
    RefusedError,
    StartError,
    ToolError,
    log,
    log_exception,
)
from ..kit import import_name
from ..statements import in_child
from . import half_pair, refusal_line, refuse_cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..kit import Kit, Tool, Workspace
    from ..session import Session
    from .handlers import Answer, Params

    Result = dict[str, Any] | DeferredResult | str
    from collections.abc import Iterable, Iterator, Sequence

    from ..kit import Prompt
    from .handlers import Handlers, Method


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
    entries, cursor = kit.import_resources().list_page(workspace, params.get("cursor"))
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
    return _served(*skill).list_skills(params)


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
    made = import_name(kit.prompts)(session, tools) if kit.prompts else ()
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


TEXT, GUIDE = "SKILL.md", "references/tool-guide.md"
MARKDOWN = "text/markdown"
# The effect of a tool, in a word and in a sentence, by the first hint that it declares.
EFFECTS: Mapping[str, tuple[str, str]] = {
    "readOnlyHint": ("reads", "It changes nothing."),
    "openWorldHint": ("runs", "It runs a program, which may do anything."),
    "destructiveHint": ("destructive", "It deletes or overwrites data permanently."),
    "idempotentHint": ("writes", "It writes; repeating the call changes nothing more."),
    "": ("writes", "It writes; repeating the call may write again."),
}
TOOLS = """\
## Tools

This session has these tools of the MCP server `{}` and cannot call any other. Their schemas \
describe the arguments; [the tool guide](references/tool-guide.md) describes results and \
alternatives.

| tool | use it to | effect |
|---|---|---|
"""


class ServedSkill:
    """The skill of one kit in one session; there is none if the session has no tool of the kit.

    `words` are the texts of the project's own module of the kit, `kit` is the kit's key.
    """

    __slots__ = ("_entries", "_files")

    def __init__(self, words: Mapping[str, Any], kit: str, tools: Mapping[str, Tool]) -> None:
        self._files: dict[str, str] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        if not tools:
            return
        place = f"skill://{words['name']}"
        front = {"name": words["name"], "description": words["description"]}
        told = [_Told(tool, words["tools"][name]) for name, tool in tools.items()]
        self._files = {
            f"{place}/{TEXT}": _text(words, kit, front, tools, told),
            f"{place}/{GUIDE}": _guide(kit, tools, told),
        }
        files = [_described(uri, text.encode()) for uri, text in self._files.items()]
        entry = {"uri": f"{place}/{TEXT}", "frontmatter": front, "resources": files}
        self._entries = {f"{place}/{TEXT}": entry}

    def list_skills(self, params: Params) -> dict[str, Any]:
        """Return the result of `skills/list`."""
        refuse_cursor(params)
        return {"skills": [*self._entries.values()]}

    def entry(self, params: Params) -> dict[str, Any]:
        """Return the result of `skills/get`; raises `NotThereError` for the URI of no skill."""
        uri = params["uri"]
        if uri not in self._entries:
            raise NotThereError(f'there is no skill at "{uri}": skills/list lists them')
        return {"skill": self._entries[uri]}

    def read(self, params: Params) -> dict[str, Any]:
        """Return the result of `resources/read`; raises `NotThereError` for the URI of no file."""
        uri = params["uri"]
        if uri not in self._files:
            raise NotThereError(f'no skill has a file "{uri}": skills/list lists the skills')
        return {"contents": [{"uri": uri, "mimeType": MARKDOWN, "text": self._files[uri]}]}


class _Told:
    """The description of one tool, as Markdown: `effect` in a word, and `sentence` of it."""

    __slots__ = ("answer", "effect", "instead", "name", "purpose", "sentence")

    def __init__(self, tool: Tool, words: Mapping[str, Any]) -> None:
        self.name = tool.name
        self.purpose: str = words["purpose"]
        self.answer: str = words["answer"]
        self.instead: Mapping[str, str] = words.get("instead", {})
        self.effect, self.sentence = effect_of(tool)


def effect_of(tool: Tool) -> tuple[str, str]:
    """Return the effect of a tool, in a word and in a sentence."""
    effect, sentence = next(EFFECTS[hint] for hint in EFFECTS if not hint or tool.hints.get(hint))
    if not tool.writes_by:
        return effect, sentence
    named = ", ".join(f"`{name}`" for name in tool.writes_by)
    return f"{effect} with {named}", f"Without {named} it changes nothing. {sentence}"


def _described(uri: str, data: bytes) -> dict[str, Any]:
    """Return a file as the entry of its skill lists it."""
    return {"uri": uri, "digest": f"sha256:{sha256_hex(data)}", "size": len(data)}


def _text(
    words: Mapping[str, Any],
    kit: str,
    front: Mapping[str, str],
    tools: Mapping[str, Tool],
    told: Sequence[_Told],
) -> str:
    """Return `SKILL.md`: when to use which tool, and in what order."""
    head = "".join(f"{key}: {write_json(value)}\n" for key, value in front.items())
    overview = "".join(f"## {title}\n\n{text}\n\n" for title, text in words["overview"].items())
    rows = "".join(f"| `{one.name}` | {one.purpose} | {one.effect} |\n" for one in told)
    workflows = "".join(_workflows(words["workflows"], tools))
    section = f"{TOOLS.format(kit)}{rows}{workflows}"
    return f"---\n{head}---\n\n# {words['title']}\n\n{overview}{section}"


def _guide(kit: str, tools: Mapping[str, Tool], told: Sequence[_Told]) -> str:
    """Return the purpose and the answer of each tool."""
    parts = [f"# The tools of `{kit}`\n"]
    for one in told:
        parts.append(
            f"\n## {one.name}\n\nUse it to {one.purpose}. It returns {one.answer}. {one.sentence}\n"
        )
        parts += [
            f"\nFor {what}, use `{name}`.\n" for name, what in one.instead.items() if name in tools
        ]
    return "".join(parts)


def _workflows(workflows: Sequence[Mapping[str, Any]], tools: Mapping[str, Tool]) -> Iterator[str]:
    """Yield a section for each workflow that makes sense with these tools."""
    for workflow in workflows:
        steps = [*_steps(workflow["steps"], tools)]
        if steps and all(need in tools for need in workflow["needs"]):
            numbered = "".join(f"{at}. {step}\n" for at, step in enumerate(steps, 1))
            yield f"\n## {workflow['title']}\n\n{numbered}"


def _steps(steps: Sequence[Mapping[str, Any]], tools: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the steps that the tools can do, with the arguments that they have."""
    for step in steps:
        text = step["text"]
        if not step["tool"]:
            yield text
        elif step["tool"] in tools:
            properties = tools[step["tool"]].properties
            given = {name: value for name, value in step["given"].items() if name in properties}
            if all(
                value is None or value in properties[name].get("enum", (value,))
                for name, value in given.items()
            ):
                spelled = ", ".join(_type_name(name, value) for name, value in given.items())
                called = f"`{step['tool']}` with {spelled}" if given else f"`{step['tool']}`"
                yield f"{called}: {text[0].lower()}{text[1:]}"


def _type_name(name: str, value: str | bool | None) -> str:
    if value is None:
        return f"`{name}`"
    return f"`{name}` `{value if isinstance(value, str) else write_json(value)}`"


LONGEST_INTEGER = 4300  # of an integer; Python reads no longer ones
FIRST_INEXACT = 2**53  # from here on a floating-point number is not the integer that was written
TOO_DEEP = f"the message is nested more than {NESTED} levels deep"
UNREADABLE = "the message cannot be read"
# Parts that decide the depth of a part of a text, and the value of an id.
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_IDENTITY = re.compile(r'\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,400})\s*[,}]')


def refused(line: bytes) -> bytes | None:
    """Return the line that refuses a line; None if the line is a request.

    It is empty if the line needs no answer: a blank one, a notification or a response.
    """
    text = line.decode("utf-8", "replace")
    if not text.strip(BLANKS):
        return b""
    long: list[str] = []

    def integer(digits: str) -> int | None:
        if len(digits) <= LONGEST_INTEGER:
            return int(digits)
        long.append(digits)
        return None

    try:
        frame = JsonReader(integer=integer).read(text)
    except RecursionError:
        return _refused(text, INVALID_REQUEST, TOO_DEEP)
    except ValueError as error:
        return _refused(text, PARSE_ERROR, f"the line is not valid JSON: {error}")
    if type(frame) is dict and _needs_no_answer(frame):
        return b""
    problem = _problem(frame)
    if not problem and long:
        problem = f"an integer has more than {LONGEST_INTEGER:,} digits"
    if not problem:
        return None
    identity = frame.get("id") if type(frame) is dict else None
    return refusal_line(_echoed(identity), RefusedError(INVALID_REQUEST, problem))


def unreadable(line: bytes) -> bytes:
    """Return the line that refuses a line with an unknown problem."""
    return _refused(line.decode("utf-8", "replace"), INVALID_REQUEST, UNREADABLE)


def _problem(frame: Any) -> str:
    """Return the reason why a value is not a message; empty if it is one."""
    if type(frame) is list:
        return "batches are not supported: send one message per line"
    if type(frame) is not dict:
        return "a message must be a JSON object"
    problems = {
        '"jsonrpc" must be "2.0"': frame.get("jsonrpc") != "2.0",
        '"method" must be a string': type(frame.get("method")) is not str,
        '"id" must be a string or an integer': type(frame.get("id", "")) not in (int, str),
        '"params" must be an object': type(frame.get("params")) not in (dict, type(None)),
        TOO_DEEP: too_deep(frame),
    }
    problem = next((text for text, holds in problems.items() if holds), "")
    if not problem and (half := half_pair(frame)):
        return f"a string contains {half}, half of a surrogate pair: send well-formed Unicode"
    return problem


def _needs_no_answer(frame: dict[str, Any]) -> bool:
    """Return whether an object is a response, or a notification."""
    if type(frame.get("method")) is str:
        return "id" not in frame
    return "result" in frame or "error" in frame


def _refused(text: str, code: int, problem: str) -> bytes:
    return refusal_line(_echoed(_identity(text)), RefusedError(code, problem))


def _identity(text: str) -> Any:
    """Return the id in a text that is not JSON, or too deep; None if it has no clear id."""
    depth = 0
    for part in _PARTS.finditer(text):
        if part[0] in ("{", "["):
            depth += 1
        elif part[0] in ("}", "]"):
            depth -= 1
        elif depth == 1 and part[0] == '"id"':
            found = _IDENTITY.match(text, part.end())
            return _value(found[1]) if found else None
    return None


def _value(text: str) -> Any:
    try:
        return JsonReader().read(text)
    except ValueError:
        return None


def _echoed(identity: Any) -> int | str | None:
    """Return an id that a client can have back: a text, an integer, or None for any other."""
    if type(identity) is float and abs(identity) < FIRST_INEXACT and identity.is_integer():
        return int(identity)
    if type(identity) not in (int, str) or half_pair(identity):
        return None
    found: int | str = identity
    return found


def described(handlers: Handlers, seen: Sequence[Tool]) -> str:
    """Return a session's view of a kit as JSON: `tools`, `instructions`, `prompts` as text.

    A kit with a brief adds `brief`. Raises `StartError` if a prompt or the brief cannot be made.
    """

    def answer_to(method: str, params: dict[str, str]) -> dict[str, Any]:
        return settled(handlers.methods[method](params))

    prompts = answer_to("prompts/list", {})["prompts"] if "prompts/list" in handlers.methods else []
    try:
        texts = [answer_to("prompts/get", {"name": prompt["name"]}) for prompt in prompts]
        make = handlers.kit.brief
        brief = {"brief": import_name(make)(handlers.workspace, seen)} if make else {}
    except (RefusedError, ToolError) as error:
        raise StartError(str(error)) from error
    told = [
        {**prompt, "text": text["messages"][0]["content"]["text"]}
        for prompt, text in zip(prompts, texts, strict=True)
    ]
    tools = answer_to("tools/list", {})["tools"]
    facts = {"tools": tools, "instructions": handlers.instructions, "prompts": told, **brief}
    return json.dumps(facts) + "\n"
