"""A tool: its name, description, arguments and hints, and the name of its function."""

from __future__ import annotations

from .encoding import DIGITS, JSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from .deferred import DeferredResult
    from .policy import BoundArgument, Grant

    Run = Callable[[Any, dict[str, Any]], dict[str, Any] | str | DeferredResult]

NOTHING: Mapping[str, str] = {}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRINGS = {"type": "array", "items": STRING}
INTEGERS = {"type": "array", "items": INTEGER}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 200}
CURSOR = {"type": "string", "description": "next_cursor of the page before"}

# Hints for clients, by the promise of a tool; all but the last are limited to the project.
READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
# It destroys nothing, but the same call again may write again.
NON_DESTRUCTIVE = {"destructiveHint": False, "openWorldHint": False}
# It destroys nothing, and the same call again changes nothing more.
IDEMPOTENT = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
# It deletes or replaces; the same call again changes nothing more.
DESTRUCTIVE = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
# It runs a program, which may do anything anywhere.
OPEN_WORLD = {"destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


class Tool:
    """One tool of a server.

    `properties` are JSON Schemas by argument name, `required` the names that must be given,
    `hints` the annotations of the protocol. `run` is the dotted name of the function that
    `function` returns or, if there is `data`, of a function that makes it from the data. `needs`
    names, as `"kit:tool"`, the tool without which there is no such argument. `refusals` holds the
    refusal of a wrong value by argument, if it is not the usual one. `search_hint` holds words that
    a client may search for besides the name. `instruction` and `advice` are lines of the
    server's instructions (see `instruction_lines`).
    """

    __slots__ = (
        "advice",
        "bound_arguments",
        "data",
        "description",
        "hints",
        "instruction",
        "loaded_first",
        "name",
        "needs",
        "properties",
        "refusals",
        "required",
        "run",
        "search_hint",
        "writes_by",
    )

    def __init__(
        self,
        name: str,
        description: str,
        *,
        hints: Mapping[str, bool],
        run: str,
        properties: Mapping[str, Mapping[str, Any]],
        required: Sequence[str] = (),
        data: object = None,
        needs: Mapping[str, str] = NOTHING,
        refusals: Mapping[str, str] = NOTHING,
        search_hint: str = "",
        instruction: str = "",
        advice: str = "",
    ) -> None:
        self.name = name
        self.description = description
        self.hints = hints
        self.run = run
        self.data = data
        self.properties = properties
        self.required = required
        self.needs = needs
        self.refusals = refusals
        self.search_hint = search_hint
        self.instruction = instruction
        self.advice = advice
        self.loaded_first = False
        self.writes_by: Sequence[str] = ()
        self.bound_arguments: Mapping[str, BoundArgument] = {}

    def function(self) -> Run:
        """Import and return the function that answers calls.

        It takes the workspace and the arguments, returns a JSON object, a text or a result that is
        not there yet, and raises `ToolError`.
        """
        function = named(self.run)
        run: Run = function if self.data is None else function(self.data)
        return run

    def reading_without(self, *arguments: str) -> Tool:
        """Return the same tool, which only reads in a session that has none of these arguments."""
        self.writes_by = arguments
        return self

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments; unknown ones are refused."""
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        schema["additionalProperties"] = False
        return schema

    def entry(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it, with a schema that all models accept."""
        entry = {
            "name": self.name,
            "description": self.description,
            "inputSchema": portable(self.input_schema()),
            "annotations": dict(self.hints),
        }
        meta: dict[str, Any] = {"anthropic/alwaysLoad": True} if self.loaded_first else {}
        if self.search_hint and not self.loaded_first:
            meta["anthropic/searchHint"] = self.search_hint
        return {**entry, "_meta": meta} if meta else entry

    def completed(self, arguments: dict[str, object]) -> dict[str, object]:
        """Return the arguments of a call, with the session's own rows for omitted ones.

        Raises `ToolError` for a row that the session may not touch.
        """
        for name, bound in self.bound_arguments.items():
            if name in arguments:
                bound.refuse_another(name, arguments[name])
        own = {name: bound.value for name, bound in self.bound_arguments.items()}
        return {**own, **arguments} if own else arguments

    def tailored(self, grant: Grant, *, loaded_first: bool) -> Tool:
        """Return the same tool with the arguments, values and rows of a session's grant."""
        if grant.arguments is None and not (grant.values or grant.rows or loaded_first):
            return self
        tool = self.narrowed([*self.properties] if grant.arguments is None else grant.arguments)
        tool.properties = {
            name: _restricted(schema, grant.values.get(name), grant.rows.get(name))
            for name, schema in tool.properties.items()
        }
        tool.required = [name for name in tool.required if name not in grant.rows]
        tool.loaded_first = loaded_first
        tool.bound_arguments = grant.rows
        return tool

    def narrowed(self, keep: Collection[str]) -> Tool:
        """Return the same tool with no other arguments than `keep`.

        Also limits the names that `clear` accepts.
        """
        properties = {name: schema for name, schema in self.properties.items() if name in keep}
        if "clear" in properties:
            clearing = _clearing(properties.pop("clear"), keep)
            properties.update({"clear": clearing} if clearing else {})
        writes_by = [name for name in self.writes_by if name in keep]
        tool = Tool(
            self.name,
            self.description,
            hints=READ_ONLY if self.writes_by and not writes_by else self.hints,
            run=self.run,
            data=self.data,
            properties=properties,
            required=[name for name in self.required if name in keep],
            needs=self.needs,
            refusals=self.refusals,
            search_hint=self.search_hint,
            instruction=self.instruction,
            advice=self.advice,
        )
        return tool.reading_without(*writes_by)


def named(name: str) -> Any:
    """Import and return the value of a module by its dotted name."""
    module, _, value = name.rpartition(".")
    return getattr(__import__(module, None, None, [value]), value)


def instruction_lines(tools: Sequence[Tool]) -> list[str]:
    """Return the instructions of tools, then their advice.

    An instruction that several tools share appears once, with their names in the place of
    `{tools}`.
    """
    sharing: dict[str, list[str]] = {}
    for tool in tools:
        if tool.instruction:
            sharing.setdefault(tool.instruction, []).append(tool.name)
    lines = [line.replace("{tools}", ", ".join(names)) for line, names in sharing.items()]
    return [*lines, *dict.fromkeys(tool.advice for tool in tools if tool.advice)]


def _clearing(schema: Mapping[str, Any], keep: Collection[str]) -> Mapping[str, Any]:
    """Return the schema of `clear` for the kept arguments.

    Empty if none of them can be cleared. An argument `clear` that lists no names is unchanged.
    """
    known = schema.get("items", {}).get("enum")
    if known is None:
        return schema
    names = [name for name in known if name in keep]
    return {**schema, "items": {**schema["items"], "enum": names}} if names else {}


def _restricted(
    schema: Mapping[str, Any], values: Collection[str] | None, bound: BoundArgument | None
) -> Mapping[str, Any]:
    """Return an argument's schema with fewer values, or with the row that is its default."""
    if values is not None:
        schema = {**schema, "enum": [value for value in schema["enum"] if value in values]}
    return {**schema, "default": bound.value} if bound is not None else schema


JSON_TEXT = "JSON text"
DESCRIBED = {JSON: JSON_TEXT, DIGITS: "decimal number"}
# Types without parts, and the keys that a schema of one may not have to be portable as it is.
SIMPLE, SPECIAL = ("string", "integer", "number", "boolean"), {"enum", "format", "properties"}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def portable(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value in the part of JSON Schema that the APIs of all models accept.

    Gemini refuses enums of numbers, an empty text in an enum, and an argument without a type, and
    then every request of the session fails. The server still checks calls against the full schema.
    """
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
        found["properties"] = {
            name: one if one.get("type") in SIMPLE and SPECIAL.isdisjoint(one) else portable(one)
            for name, one in found["properties"].items()
        }
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = portable(found["additionalProperties"])
    return found


def _spell_enum(rule: dict[str, Any]) -> None:
    """Leave only texts in an enum; describe its other values."""
    values = rule["enum"]
    rule.setdefault("type", _TYPE_NAMES.get(type(values[0]), "string") if values else "string")
    texts = [value for value in values if isinstance(value, str) and value]
    if texts == values and texts:
        return
    from .values import shortened

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
