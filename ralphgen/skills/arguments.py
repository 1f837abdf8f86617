"""Words for the arguments of a tool, taken from the schema that a client is given."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ralphgen.spelling import markdown_cell

_PLAIN = re.compile(r"[ -_a-{}~]+")  # ASCII that ends neither a code span nor a cell


def argument_rows(
    schema: Mapping[str, Any], needs: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """A row of Markdown cells for each property of an input schema, in its order.

    `needs` holds, by argument, the tool as `"kit:tool"` without which it is not offered.
    """
    required = schema.get("required", ())
    return tuple(
        {
            "name": code(name),
            "type": _type(rule),
            "must": "yes" if name in required else "",
            "values": _values(rule),
            "text": _text(rule, needs.get(name, "")),
        }
        for name, rule in schema.get("properties", {}).items()
    )


def code(value: object) -> str:
    """A name or value of JSON as code in a cell; one with odd characters as quoted plain text."""
    text = value if isinstance(value, str) else json.dumps(value)
    if _PLAIN.fullmatch(text) and text == text.strip():
        return f"`{text}`"
    return markdown_cell(json.dumps(text, ensure_ascii=False))


def codes(values: Iterable[object]) -> str:
    """Names or values of JSON as code, with commas."""
    return ", ".join(map(code, values))


def _type(rule: Mapping[str, Any]) -> str:
    kinds = rule.get("type", "any")
    if kinds == "array" and "items" in rule:
        return f"array of {_type(rule['items'])}"
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _values(rule: Mapping[str, Any]) -> str:
    """The values that an argument may have, or their bounds; empty where all are legal."""
    rule = rule.get("items", rule)
    if "enum" in rule:
        return codes(rule["enum"])
    bounds = {"minimum": "at least", "maximum": "at most", "pattern": "like"}
    said = [f"{words} {code(rule[bound])}" for bound, words in bounds.items() if bound in rule]
    return ", ".join(said)


def _text(rule: Mapping[str, Any], need: str) -> str:
    text = markdown_cell(str(rule.get("description", "")))
    if not need:
        return text
    kit, _, tool = need.partition(":")
    return f"{text} (where the session has {code(tool)} of {code(kit)})".strip()
