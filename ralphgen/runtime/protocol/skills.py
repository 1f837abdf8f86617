"""Serves a kit's Agent Skill to one session, by the skills extension of the protocol.

Its files are resources, and its entry holds their digests. They describe the tools of the session,
so they do not change while the server lives. The specification:
https://github.com/modelcontextprotocol/ext-skills (SEP-2640).
"""

from __future__ import annotations

from ..encoding import sha256_hex, write_json
from ..failures import NotThereError
from .messages import refuse_cursor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..tool import Tool
    from .handlers import Params

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

    def listed(self, params: Params) -> dict[str, Any]:
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
                spelled = ", ".join(_given(name, value) for name, value in given.items())
                called = f"`{step['tool']}` with {spelled}" if given else f"`{step['tool']}`"
                yield f"{called}: {text[0].lower()}{text[1:]}"


def _given(name: str, value: str | bool | None) -> str:
    if value is None:
        return f"`{name}`"
    return f"`{name}` `{value if isinstance(value, str) else write_json(value)}`"
