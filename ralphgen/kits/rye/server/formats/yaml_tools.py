"""Reads tools in YAML.

The metadata of such a tool are its YAML as a JSON object: `version`, `tool_type`, `executor_id`,
`category`, `description`, `config`, `config_schema`, `env_config` and whatever else it says, each
under its own name and only where it is said. Where it lists `parameters`, `config_schema` is the
JSON Schema that this list means; no other parameters are allowed then.
"""

from __future__ import annotations

from .fields import schema_of, tags_of, text_of, tool_problems
from .parsed import Parsed
from .places import MOST_PROBLEMS
from .yaml_values import read_yaml


def parse_yaml_tool(text: str, name: str) -> Parsed:
    """What a tool says, from its text with plain line ends; `name` is for lists."""
    metadata, problems = read_yaml(text)
    if not isinstance(metadata, dict):
        why = problems or ["must be an object in YAML: expected keys and values"]
        return Parsed({}, text, title=name, problems=tuple(why))
    if "parameters" in metadata:
        if "config_schema" in metadata:
            problems.append('has "config_schema" and "parameters": leave one of them out')
        else:
            metadata["config_schema"], wrong = schema_of(metadata["parameters"])
            problems += wrong
    problems += tool_problems(metadata)
    return Parsed(
        metadata,
        text,
        title=name,
        description=text_of(metadata, "description"),
        tags=tags_of(metadata),
        problems=tuple(problems[:MOST_PROBLEMS]),
    )
