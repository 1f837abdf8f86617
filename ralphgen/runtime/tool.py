"""What a tool is: a name, a sentence, arguments, hints and the function that does it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRINGS = {"type": "array", "items": STRING}
INTEGERS = {"type": "array", "items": INTEGER}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 200}
CURSOR = {"type": "string", "description": "next_cursor of the page before"}

READS = {"readOnlyHint": True, "openWorldHint": False}
ADDS = {"destructiveHint": False, "openWorldHint": False}
CHANGES = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
DELETES = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


class Tool:
    """One tool of a server.

    `properties` are JSON Schemas by argument name, `required` the names that must be given,
    `hints` the annotations of the protocol, `run` a function of (workspace, arguments) that
    returns a JSON object and raises `ToolError`. `returns` is the JSON Schema of that object,
    where the project asked for structured output.
    """

    __slots__ = ("description", "hints", "name", "properties", "required", "returns", "run")

    def __init__(
        self,
        name: str,
        description: str,
        *,
        hints: Mapping[str, bool],
        run: Callable[[Any, dict[str, Any]], dict[str, Any]],
        properties: Mapping[str, Mapping[str, Any]],
        required: Sequence[str] = (),
        returns: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.hints = hints
        self.run = run
        self.properties = properties
        self.required = required
        self.returns = returns

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments; unknown ones are refused."""
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        schema["additionalProperties"] = False
        return schema

    def narrowed(self, keep: Collection[str]) -> Tool:
        """The same tool with no other arguments than `keep`; what `clear` may name shrinks too."""
        properties = {name: schema for name, schema in self.properties.items() if name in keep}
        if "clear" in properties:
            clearing = _clearing(properties.pop("clear"), keep)
            properties.update({"clear": clearing} if clearing else {})
        return Tool(
            self.name,
            self.description,
            hints=self.hints,
            run=self.run,
            properties=properties,
            required=[name for name in self.required if name in keep],
            returns=self.returns,
        )


def _clearing(schema: Mapping[str, Any], keep: Collection[str]) -> Mapping[str, Any]:
    """The schema of `clear` for the kept arguments; empty where none of them can be cleared."""
    names = [name for name in schema["items"]["enum"] if name in keep]
    return {**schema, "items": {**schema["items"], "enum": names}} if names else {}
