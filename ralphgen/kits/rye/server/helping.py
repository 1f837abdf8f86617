"""Help texts, with a minimal item of each type that passes signing."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError

from .values import VALIDATION_FAILED, preview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ralphgen.runtime.kit import Tool

    from .workspace import Rye

ABOUT = """\
# Items

| type | file | purpose |
|---|---|---|
| directive | .ai/directives/<id>.md | a workflow to follow |
| tool | .ai/tools/<id>.py, .yaml | a program to run |
| knowledge | .ai/knowledge/<id>.md | something to know |

The id is the path below the type's folder without its extension, such as demo/greet. A bare name \
(greet) works if it is unique in its space.

There are three spaces: the project's (the nearest .ai from project_path upwards), the user's \
(USER_SPACE, else ~/.ai) and the system's, which comes with this server and is read-only. The \
first space with a matching id is used."""
# The purpose of each tool, in typical order of use.
USES = {
    "search": "find an existing item before you do the work by hand.",
    "load": "read an item before you rely on it.",
    "execute": "run a tool, or get a directive with its inputs filled in, or get knowledge.",
    "sign": "check and sign a new or changed item.",
    "help": "show this page or a topic.",
}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "search": {"item_type": "all", "query": "greet OR welcome"},
    "load": {"item_type": "directive", "item_id": "demo/greet"},
    "execute": {"item_type": "tool", "item_id": "demo/shout", "parameters": {"text": "hello"}},
    "sign": {"item_type": "tool", "item_id": "demo/*"},
}
FURTHER = {
    "search": "All words must match (AND is the default). NOT binds tighter than AND, and AND "
    "tighter than OR; write operators in capitals. To search one field, prefix a word, "
    "phrase or group with title:, name:, tags:, category:, description: or body:. "
    "fuzzy accepts an empty object. A result names its space and the spaces whose item "
    "it shadows (shadows) or that shadow it (shadowed_by).",
    "load": "signature.state is valid, unsigned, modified (changed after it was signed) or "
    "untrusted (you do not trust the key).",
    "execute": "An item without a valid signature may be refused; see metadata.policy and "
    "metadata.signature. A directive is returned as instructions: follow them "
    "yourself.",
    "sign": "An item with issues is not signed; the error lists them all. The first signature "
    "creates the user's key. Sign only items that you have read.",
}
# By topic: the item type, the id of the full reference, and a summary.
FORMATS = {
    "directives": (
        "directive",
        "rye/directive-format",
        """\
Markdown with one XML fence. name is the last part of the id, category the rest of it (may be \
empty), version three numbers; description and author are required, model and permissions are \
recommended. {input:who} is replaced by the value of an input.""",
    ),
    "tools": (
        "tool",
        "rye/tool-format",
        """\
A Python file or a YAML file. Version (three numbers), type, executor, category (the id without \
its last part) and description are required. The executor is the runtime \
rye/core/runtimes/python_runtime, which calls the function execute(params, project_path) of the \
file, or one of the primitives rye/core/primitives/subprocess (a command, without a shell) and \
rye/core/primitives/http_client (one request). {text} is replaced by the value of a parameter.""",
    ),
    "knowledge": (
        "knowledge",
        "rye/knowledge-format",
        """\
Markdown after front matter. id is the last part of the id, version three numbers; title is \
required, entry_type (pattern, learning, reference, decision, concept, procedure) is recommended; \
category, if set, is the id without its last part.""",
    ),
}
GREET = """\
# Greet

```xml
<directive name="greet" version="1.0.0">
  <metadata>
    <description>Greet someone</description>
    <category>demo</category>
    <author>team</author>
    <model tier="fast"/>
    <permissions><execute resource="tool" id="demo/shout"/></permissions>
  </metadata>
  <inputs><input name="who" type="string" required="true">Person to greet</input></inputs>
  <process><step name="greet"><action>Say hello to {input:who}.</action></step></process>
  <outputs><output name="greeting">The greeting</output></outputs>
</directive>
```
"""
SHOUT = '''\
"""Says it louder."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_runtime"
__category__ = "demo"
__tool_description__ = "Say a text in capitals"
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def execute(params, project_path):
    return {"said": params["text"].upper()}
'''
ECHO = """\
tool_type: script
version: 1.0.0
executor_id: rye/core/primitives/subprocess
category: demo
description: Say a text again
config:
  command: echo
  args: ["{text}"]
config_schema:
  type: object
  properties:
    text: {type: string}
  required: [text]
  additionalProperties: false
"""
HELLO = """\
---
id: hello
title: How people are greeted here
version: 1.0.0
entry_type: reference
category: demo
tags: [greeting]
---

# How people are greeted here

By their first name.
"""
# Example items of each topic, by path below the project.
SKELETONS = {
    "directives": {".ai/directives/demo/greet.md": GREET},
    "tools": {".ai/tools/demo/shout.py": SHOUT, ".ai/tools/demo/echo.yaml": ECHO},
    "knowledge": {".ai/knowledge/demo/hello.md": HELLO},
}
OVERVIEW = "overview"
TOOLS = ("search", "load", "execute", "sign")
TOPICS = (OVERVIEW, *TOOLS, *FORMATS)


def help_on(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the text of a topic and the list of topics."""
    seen = rye.tools()
    topics = _topics(seen)
    topic = arguments.get("topic", OVERVIEW)
    if topic not in topics:
        listed = ", ".join(f'"{name}"' for name in topics)
        raise CodedError(VALIDATION_FAILED, f"unknown topic {preview(topic)}: use {listed}")
    return {"status": "success", "topic": topic, "content": _content(topic, seen), "topics": topics}


def _topics(seen: Mapping[str, Tool]) -> list[str]:
    """Return the topics, without tools that the session lacks."""
    return [topic for topic in TOPICS if topic in seen or topic not in TOOLS]


def _content(topic: str, seen: Mapping[str, Tool]) -> str:
    if topic == OVERVIEW:
        uses = [f"- {name}: {use}" for name, use in USES.items() if name in seen]
        topics = ", ".join(topic for topic in _topics(seen) if topic != OVERVIEW)
        return "\n".join([ABOUT, "", "# Tools", "", *uses, "", f"Topics of help: {topics}."])
    if topic in seen:
        return "\n".join(_on_tool(seen[topic]))
    return "\n\n".join(_on_format(topic, seen))


def _on_tool(tool: Tool) -> Iterator[str]:
    """Yield the help lines of a tool: its purpose, arguments and an example call."""
    import json

    yield from (f"# {tool.name}", "", tool.description, "", FURTHER[tool.name], "")
    for name, rule in tool.properties.items():
        yield f"- {_argument_line(name, rule, must=name in tool.required)}"
    given = {**EXAMPLES[tool.name], "project_path": "/path/of/the/project"}
    call = {name: value for name, value in given.items() if name in tool.properties}
    yield from ("", f"Example: {json.dumps(call)}")


def _argument_line(name: str, rule: Mapping[str, Any], *, must: bool) -> str:
    """Return one argument as a line."""
    limits = [str(rule[limit]) for limit in ("minimum", "maximum") if limit in rule]
    facts = [str(rule["type"]), *(["required"] if must else ())]
    if "enum" in rule:
        facts = [*facts[1:], " | ".join(str(value) for value in rule["enum"])]
    if limits:
        facts.append(f"from {' to '.join(limits)}")
    inner = [
        _argument_line(part, rules, must=False)
        for part, rules in rule.get("properties", {}).items()
    ]
    text = f"{name} ({', '.join(facts)})"
    if "description" in rule:
        text += f": {rule['description']}"
    return f"{text}; with {', '.join(inner)}" if inner else text


def _on_format(topic: str, seen: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the paragraphs about the format of a type."""
    item_type, format_id, about = FORMATS[topic]
    yield f"# {topic.capitalize()}"
    yield about
    for path, text in SKELETONS[topic].items():
        yield f"{path}:\n\n````\n{text}````"
    if "sign" in seen:
        yield f'Then call sign with item_type "{item_type}" and the id.'
    if "load" in seen:
        pinned = ' and source "system"' if "source" in seen["load"].properties else ""
        yield f'Full reference: load with item_type "knowledge", item_id "{format_id}"{pinned}.'
