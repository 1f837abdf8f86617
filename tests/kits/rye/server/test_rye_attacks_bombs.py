"""Files, queries and values that are meant to block the server are refused quickly."""

import time
from collections.abc import Iterator

import pytest
from rye_attacks import OFF, code, ran
from rye_projects import Rye, directive, python_tool, yaml_tool

SETTINGS = OFF

SOON = 10.0  # seconds; the slowest test takes one on an idle machine


@pytest.fixture
def rye(shared: Rye) -> Iterator[Rye]:
    """Yield the shared session without items; fails if it answered too slowly or broke."""
    shared.clear()
    begun = time.monotonic()
    yield shared

    assert time.monotonic() - begun < SOON
    shared.clear()
    assert 9 == shared.says("search", item_type="all", query="", source="system")["total"]


def many(name: str) -> str:
    """Repeat a placeholder so often that the filled text would take gigabytes."""
    return name * 10_000


def test_a_short_text_does_not_become_a_long_one(rye: Rye) -> None:
    """S21: values are repeated only within limits, in defaults and in parameters."""
    long = "x" * 200_000
    inputs = f'<inputs><input name="p" default="{long}">x</input></inputs>'
    schema = {"type": "object", "properties": {"p": {"type": "string", "default": long}}}
    shown = {"command": "echo", "args": [many("{p}")]}
    asking = {"url": "https://127.0.0.1:9/", "method": "POST", "body": ["{p} "] * 5_000}
    texts = {
        "args": python_tool("args", executor_id="subprocess", CONFIG=shown, schema=schema),
        "input": python_tool(
            "input",
            executor_id="subprocess",
            CONFIG={"command": "true", "input_data": many("{p}")},
            schema=schema,
        ),
        "body": python_tool("body", executor_id="http_client", CONFIG=asking, schema=schema),
    }
    for item_id, text in texts.items():
        rye.put("tool", item_id, text)
    for item_id, where in (("text", "body"), ("step", "process")):
        parts = {where: many("{input:p}")}
        rye.put("directive", item_id, directive(item_id, inputs=inputs, **parts))
    asked = [("tool", item_id) for item_id in texts]
    asked += [("directive", "text"), ("directive", "step")]

    assert ["VALIDATION_FAILED"] * 5 == [
        code(rye, "execute", item_type=item_type, item_id=item_id) for item_type, item_id in asked
    ]


@pytest.mark.parametrize("kind", ["doubling", "many"])
def test_variables_do_not_grow_without_end(rye: Rye, kind: str) -> None:
    """S21: each variable of a chain may refer to the previous ones."""
    if kind == "doubling":
        variables = {"A0": "x" * 100}
        variables |= {f"A{n + 1}": f"${{A{n}}}${{A{n}}}" for n in range(24)}
    else:
        variables = {"A0": "x" * 100_000}
        variables |= {f"B{n}": "${A0}" * 100 for n in range(200)}
    text = yaml_tool("a", config={"command": "true"}, env_config={"env": variables})
    rye.put("tool", "a", text, extension=".yaml")

    assert "VALIDATION_FAILED" == ran(rye, "a")
