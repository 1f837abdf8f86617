"""With structured output, the content of every successful answer equals its text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import create_project
from jsonschema import Draft202012Validator
from rye_projects import KITS, Rye, python_tool, session, well_formed, yaml_tool

LONG = "def execute(params, project_path):\n    return ['x' * 1000] * 100\n"
SAMPLE = {"item_type": "tool", "item_id": "demo/sample"}


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session with structured output and signed items."""
    folder = tmp_path_factory.mktemp("structured")
    config = f"{KITS}structured_output = true\n"
    root = create_project(folder / "project", config=config).resolve()
    with session(folder, root) as found:
        for item_type in ("directive", "tool", "knowledge"):
            found.signed(item_type, "demo/sample", well_formed(item_type, "demo/sample"))
        found.signed("tool", "demo/say", yaml_tool("demo/say"), extension=".yaml")
        found.signed("tool", "demo/long", python_tool("demo/long", LONG))
        yield found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("search", {"item_type": "all", "query": ""}),
        ("search", {"item_type": "tool", "query": "nothing-of-that-kind"}),
        ("search", {"item_type": "tool", "query": "demo", "source": "project", "limit": 1}),
        ("load", SAMPLE),
        ("load", {**SAMPLE, "destination": "user", "overwrite": True}),
        ("load", {**SAMPLE, "destination": "project"}),
        ("load", {"item_type": "knowledge", "item_id": "rye/tool-format"}),
        ("execute", {**SAMPLE, "parameters": {"who": "Bob"}}),
        ("execute", {**SAMPLE, "dry_run": True}),
        ("execute", {**SAMPLE, "item_type": "directive", "parameters": {"who": "Bob"}}),
        ("execute", {**SAMPLE, "item_type": "knowledge"}),
        ("execute", {**SAMPLE, "item_id": "demo/say", "parameters": {"text": "hello"}}),
        ("execute", {**SAMPLE, "item_id": "demo/long"}),
        ("sign", SAMPLE),
        ("sign", {**SAMPLE, "item_id": "demo/*"}),
        ("help", {}),
        ("help", {"topic": "tools"}),
    ],
)
def test_content_is_the_text_and_a_search_holds_its_schema(
    rye: Rye, tool: str, given: dict[str, Any]
) -> None:
    (listed,) = (entry for entry in rye.driver.tools() if entry["name"] == tool)
    place = {} if tool == "help" else {"project_path": str(rye.root)}
    text, structured = rye.driver.both(tool, {**given, **place})

    assert structured is not None
    assert json.loads(text) == structured
    assert ("outputSchema" in listed) == (tool == "search")
    if tool == "search":
        Draft202012Validator(listed["outputSchema"]).validate(structured)
        assert {*structured} - {"cut", "warnings"} <= {*listed["outputSchema"]["properties"]}


def test_a_failure_is_no_structured_answer(rye: Rye, tmp_path: Path) -> None:
    error = rye.refuses("load", item_type="tool", item_id="demo/none", project_path=str(tmp_path))

    assert "INVALID_PROJECT_PATH" == error["code"]
