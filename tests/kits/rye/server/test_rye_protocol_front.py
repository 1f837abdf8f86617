"""Search, load, sign, help and execute do not import the SDK."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from loaded_modules import SDK, VERSIONS, Call, answers_and_modules
from rye_projects import TYPES, rye_project, session, variables, well_formed

COSTLY = {*SDK, "asyncio", "jsonschema"}
"""Modules that only executing calls load."""
KEYS = {"cryptography", "subprocess"}
"""Modules that only signing, signed items and execution load."""
YAML = {"yaml"}
"""The module that only items with YAML metadata load."""
SAMPLE = {"item_type": "tool", "item_id": "demo/sample"}
REFUSED: tuple[Call, ...] = (
    ("search", {"item_type": "all", "query": "(sample"}),
    ("search", {"item_type": "all", "query": "sample", "limit": 0}),
    ("load", {"item_type": "tool", "item_id": "demo/simple"}),
    ("load", {"item_type": "tool", "item_id": "../sample"}),
    ("load", {**SAMPLE, "project_path": "/"}),
    ("help", {"topic": "nothing"}),
    ("find", {"query": "sample"}),
)
LOOKS: tuple[Call, ...] = (
    ("search", {"item_type": "all", "query": "sample"}),
    ("search", {"item_type": "all", "query": "smaple", "fuzzy": {"enabled": True}}),
    ("load", SAMPLE),
    ("help", {}),
    *REFUSED,
)
SIGNS: Call = ("sign", SAMPLE)
RUNS: Call = ("execute", {**SAMPLE, "parameters": {"who": "Bob"}})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with an unsigned item of each type, which may be executed."""
    root = rye_project(tmp_path / "project", 'policy = "off"')
    with session(tmp_path, root) as rye:
        for item_type in TYPES:
            rye.put(item_type, "demo/sample", well_formed(item_type, "demo/sample"))
    return root


def ran(
    root: Path, version: str, calls: Sequence[Call]
) -> tuple[Mapping[int, dict[str, Any]], set[str]]:
    """Return the answers by id and the modules that the server loaded."""
    place = {"project_path": str(root)}
    placed = [(tool, given if tool == "help" else {**place, **given}) for tool, given in calls]
    return answers_and_modules(root, "rye", version, placed, variables(root.parent))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_that_only_looks_loads_neither_the_sdk_nor_cryptography(
    project: Path, version: str
) -> None:
    _, modules = ran(project, version, [*LOOKS, *LOOKS])

    assert set() == (COSTLY | KEYS) & modules


@pytest.mark.parametrize("version", VERSIONS)
def test_help_and_refusals_read_no_yaml(project: Path, version: str) -> None:
    _, modules = ran(project, version, [("help", {}), *REFUSED])

    assert set() == (COSTLY | KEYS | YAML) & modules


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_that_signs_loads_no_sdk(project: Path, version: str) -> None:
    answers, modules = ran(project, version, [*LOOKS, SIGNS, *LOOKS])
    signed = answers[len(LOOKS) + 1]["result"]

    assert set() == COSTLY & modules
    assert {"cryptography"} <= modules
    assert not signed.get("isError"), signed


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_that_runs_loads_no_sdk_and_nothing_else_is_changed_by_it(
    project: Path, version: str
) -> None:
    answers, modules = ran(project, version, [*LOOKS, RUNS, *LOOKS])
    number = len(LOOKS) + 1
    (block,) = answers[number]["result"]["content"]

    assert set() == SDK & modules
    assert {"who": "Bob"} == json.loads(block["text"])["data"]["params"]
    for at in range(1, number):
        assert {**answers[at], "id": 0} == {**answers[number + at], "id": 0}
