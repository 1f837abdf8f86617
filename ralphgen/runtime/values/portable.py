"""Input schemas in the part of JSON Schema that the APIs of all models accept.

Gemini refuses enums of numbers, an empty text in an enum, and an argument without a type, and then
every request of the session fails. A server still checks calls against the full schema.
"""

from __future__ import annotations

from .encoding import DIGITS, JSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

JSON_TEXT = "JSON text"
DESCRIBED = {JSON: JSON_TEXT, DIGITS: "decimal number"}
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def portable(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value as clients receive it."""
    found = dict(rule)
    if "enum" in found:
        _spell_enum(found)
    form = found["format"] if found.get("format") in DESCRIBED else ""
    if form:
        del found["format"]
    if form and "type" in found:
        _describe(found, DESCRIBED[form])
    if "type" not in found:
        found = {"type": "string", **found}
        _describe(found, JSON_TEXT)
    if found["type"] == "array":
        found["items"] = portable(found.get("items", {}))
    if "properties" in found:
        found["properties"] = {name: portable(one) for name, one in found["properties"].items()}
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = portable(found["additionalProperties"])
    return found


def _spell_enum(rule: dict[str, Any]) -> None:
    """Leave only texts in an enum; describe its other values."""
    values = rule["enum"]
    rule.setdefault("type", _NAMES.get(type(values[0]), "string") if values else "string")
    texts = [value for value in values if isinstance(value, str) and value]
    if texts == values and texts:
        return
    from .arguments import shortened

    if rule["type"] == "string" and texts:
        rule["enum"] = texts
    else:
        del rule["enum"]
    numbers = [value for value in values if type(value) in (int, float)]
    if rule["type"] in ("integer", "number") and numbers:
        rule["minimum"] = max(min(numbers), rule.get("minimum", min(numbers)))
        rule["maximum"] = min(max(numbers), rule.get("maximum", max(numbers)))
    _describe(rule, f"one of {', '.join(map(shortened, values))}" if values else "no value")


def _describe(rule: dict[str, Any], words: str) -> None:
    described = rule.get("description", "")
    rule["description"] = f"{described} ({words})" if described else words
