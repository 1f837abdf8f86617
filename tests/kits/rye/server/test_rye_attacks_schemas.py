"""Schemas that would take forever to check do not block the server."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rye_attacks import INTEGRITY, ran, stamped
from rye_projects import Rye, python_tool

from ralphgen.kits.rye.server import schema_check
from ralphgen.kits.rye.server import values as parameters

SETTINGS = INTEGRITY

SOON = 20.0  # seconds; a test takes about two on an idle machine
LETTERS = "a" * 40 + "!"
BRANCHING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
SLOW: dict[str, tuple[dict[str, Any], object]] = {
    "a regular expression": ({"pattern": "^(a+)+$"}, LETTERS),
    "one for names": ({"patternProperties": {"^(a+)+$": {}}}, {LETTERS: 1}),
    "one in a list": ({"items": {"allOf": [{"pattern": "(a*)*b"}]}}, [LETTERS]),
    "references": ({"$ref": "#/$defs/d0"}, 1),
    "what is compared": ({"uniqueItems": True}, [{"a": number} for number in range(20_000)]),
    "sizes": ({"items": {"allOf": [{"type": "string"}] * 4_000}}, ["x"] * 30_000),
    "words": ({"items": {"enum": [[n] for n in range(9_000)]}}, [[8_999]] * 9_000),
}
USUAL = ("a regular expression",)  # a test below shows that the others use the same code


@pytest.fixture
def rye(shared: Rye) -> Iterator[Rye]:
    """Yield the shared session without items; fails if it answered too slowly."""
    shared.clear()
    begun = time.monotonic()
    yield shared

    assert time.monotonic() - begun < SOON


def lay(rye: Rye, schema: dict[str, Any]) -> None:
    """Write a tool with a schema for its parameter `value`."""
    text = python_tool("a", "def main(**_): return 1\n", schema=schema_of(schema))
    rye.put("tool", "a", stamped(text))


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of parameters with a schema for `value`."""
    definitions = {**BRANCHING, "d40": {"maxLength": 3}}
    return {"type": "object", "$defs": definitions, "properties": {"value": schema}}


@pytest.mark.parametrize(
    "kind", [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.soak) for kind in SLOW]
)
def test_parameters_are_checked_in_their_time_or_not_at_all(rye: Rye, kind: str) -> None:
    """S21: a dry run has the same limit, and other calls are answered afterwards."""
    schema, value = SLOW[kind]
    lay(rye, schema)
    given = {"item_type": "tool", "item_id": "a", "parameters": {"value": value}}
    refusal = rye.refuses("execute", **given, dry_run=True)
    after = rye.says("search", item_type="tool", query="", source="project")

    assert "VALIDATION_FAILED" == refusal["code"]
    assert "cannot check the parameters within 2 seconds" in refusal["message"]
    assert 1 == after["total"]


@pytest.mark.parametrize("kind", SLOW)
def test_what_could_be_slow_is_checked_apart(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S21: in a program that ends by itself."""
    schema, value = SLOW[kind]
    sent: list[str] = []

    def note(text: str) -> list[str]:
        sent.append(text)
        return []

    monkeypatch.setattr(parameters, "_problems_apart", note)
    whole = {"type": "object", "properties": {"value": schema}}
    if "$ref" in schema:
        whole = schema_of(schema)
    parameters.checked(whole, {"value": value}, "a")

    assert 1 == len(sent)


@pytest.mark.parametrize(
    ("schema", "value", "issue"),
    [
        ({"pattern": "^[a-z]+$"}, "A", "parameters.value: 'A' does not match '^[a-z]+$'"),
        ({"$ref": "#/$defs/d39"}, "aaaa", "parameters.value: 'aaaa' is too long"),
        ({"uniqueItems": True}, [1, 1], "parameters.value: [1, 1] has non-unique elements"),
        ({"items": {"type": "string"}}, ["x"] * 90_000 + [1], "parameters.value[90000]: 1 is not"),
    ],
)
def test_what_is_not_slow_is_checked_all_the_same(
    rye: Rye, schema: dict[str, Any], value: object, issue: str
) -> None:
    """S21: slow schemas are checked in another process, with the same messages."""
    lay(rye, schema)
    given = {"item_type": "tool", "item_id": "a", "parameters": {"value": value}}
    error = rye.refuses("execute", **given)

    assert error["issues"][0].startswith(issue)
    assert "success" == ran(rye, "a", value=None)


def test_a_schema_without_measure_is_not_signed(rye: Rye) -> None:
    """S21: checking such a schema would be slow as well."""
    schema = {"type": "object", "allOf": [True] * 10_000}
    rye.put("tool", "a", python_tool("a", schema=schema))
    error = rye.refuses("sign", item_type="tool", item_id="a")

    assert ['"config_schema" has 60,029 characters: shorten it to at most 40,000'] == error[
        "issues"
    ]


@pytest.mark.parametrize("given", [[{"pattern": "^(a+)+$"}, LETTERS], None])
def test_the_program_that_checks_ends_although_nobody_ends_it(given: object) -> None:
    """S21: the checker ends by itself after a server was killed or a call was cancelled."""
    ended = subprocess.run(
        (sys.executable, "-I", str(schema_check.__file__)),
        input=json.dumps(given).encode() if given else b"",
        capture_output=True,
        check=False,
        timeout=SOON,
    )

    assert (-signal.SIGPROF if given else 1, b"") == (ended.returncode, ended.stdout)
