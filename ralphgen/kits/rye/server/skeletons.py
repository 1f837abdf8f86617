"""The least that an item of each type can be: what agents are shown, and may be signed as it is."""

from __future__ import annotations

# By topic: the type, the id of the knowledge that says all, and what every item of it has.
FORMATS = {
    "directives": (
        "directive",
        "rye/directive-format",
        """\
Markdown with one fence of XML. name is the last part of the id, category the rest of it (empty \
where there is none), version three numbers; description and author must be there, model and \
permissions should be. {input:who} stands for the value of an input.""",
    ),
    "tools": (
        "tool",
        "rye/tool-format",
        """\
A Python file or a YAML file. Version (three numbers), type, executor, category (the id without \
its last part) and description must be there. The executor is the runtime \
rye/core/runtimes/python_runtime, which calls the function execute(params, project_path) of the \
file, or one of the primitives rye/core/primitives/subprocess (a command, without a shell) and \
rye/core/primitives/http_client (one request). {text} stands for a parameter.""",
    ),
    "knowledge": (
        "knowledge",
        "rye/knowledge-format",
        """\
Markdown after front matter. id is the last part of the id, version three numbers; title and \
entry_type (pattern, learning, reference, decision, concept, procedure) must be there; category, \
where it is there, is the id without its last part.""",
    ),
}
GREET = """\
# Greet

```xml
<directive name="greet" version="1.0.0">
  <metadata>
    <description>Say hello to somebody</description>
    <category>demo</category>
    <author>team</author>
    <model tier="fast"/>
    <permissions><execute resource="tool" id="demo/shout"/></permissions>
  </metadata>
  <inputs><input name="who" type="string" required="true">Whom to greet</input></inputs>
  <process><step name="greet"><action>Say hello to {input:who}.</action></step></process>
  <outputs><output name="greeting">What was said</output></outputs>
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
# By topic, items by their paths below the project.
SKELETONS = {
    "directives": {".ai/directives/demo/greet.md": GREET},
    "tools": {".ai/tools/demo/shout.py": SHOUT, ".ai/tools/demo/echo.yaml": ECHO},
    "knowledge": {".ai/knowledge/demo/hello.md": HELLO},
}
