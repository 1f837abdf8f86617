"""Arguments for a tool from its schema: mostly valid ones, and sometimes invalid ones."""

from collections.abc import Mapping
from random import Random
from typing import Any

TEXTS = (
    "",
    "a",
    "1",
    "1.5",
    "'; DROP TABLE x; --",
    '"',
    "/* ? $1 :a @b",
    "\0",
    "2026-01-01",
    "ä😀",
)
NUMBERS = (0, 1, 2, 3, -1, 1.5, 2**31, 2**63 - 1, 2**64, 1e300)
ODD: tuple[Any, ...] = (None, True, [], {}, "x" * 5_000, -(2**70))


def value_for(schema: Mapping[str, Any], random: Random) -> Any:
    """Return a value that the schema of an argument allows, and sometimes an invalid one."""
    if random.random() < 0.1:
        return random.choice(ODD)
    if "enum" in schema:
        return random.choice([*schema["enum"], schema["enum"][0]])
    kind = schema.get("type", random.choice(("string", "integer", "number")))
    if kind in ("string", "boolean"):
        return random.choice(TEXTS if kind == "string" else (True, False))
    if kind == "array":
        return [value_for(schema["items"], random)]
    if kind == "object":
        return {name: value_for(one, random) for name, one in schema["properties"].items()}
    numbers = [one for one in NUMBERS if kind == "number" or isinstance(one, int)]
    return random.choice([*numbers, 1, 2, 3])


def arguments_for(schema: Mapping[str, Any], random: Random) -> dict[str, Any]:
    """The required ones, and some of the others."""
    required = schema.get("required", ())
    return {
        name: value_for(one, random)
        for name, one in schema["properties"].items()
        if name in required or random.random() < 0.6
    }
