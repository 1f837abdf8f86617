"""`server.json` against the official schema of the registry of MCP servers."""

import json
import os
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

SCHEMA = os.environ.get("RALPHGEN_REGISTRY_SCHEMA", "")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not SCHEMA, reason="RALPHGEN_REGISTRY_SCHEMA names no schema"),
]


def test_the_entry_is_valid() -> None:
    schema = json.loads(Path(SCHEMA).read_text(encoding="utf-8"))
    entry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))

    assert entry["$schema"] == schema["$id"]
    assert [] == [error.message for error in Draft7Validator(schema).iter_errors(entry)]
    assert [*Draft7Validator(schema).iter_errors({**entry, "description": "x" * 101})]
