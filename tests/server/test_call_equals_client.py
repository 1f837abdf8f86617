"""`ralphgen call` answers what any client is answered: every tool of every kit in every recipe."""

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen
from driving import Driver, connected, create_project, emitted_policy, made_here
from mcp import MCPError

pytestmark = pytest.mark.slow

KITS = ("ralph", "dela", "specum", "acm", "rye")
CONFIG = f"kits = {json.dumps(KITS)}\n"
RECIPES = (
    *("braindump", "yap", "ramble", "discuss", "task_execution"),
    *("opus_review", "enrichment", "interactive", "manual"),
)
ROWS = {"task_execution": ["--task", "1"], "discuss": ["--discipline", "backend"]}
"""The options that a recipe needs."""
SAMPLES: Mapping[str, object] = {
    "string": "auth",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|\+00:00)?)?|\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b|\d+(\.\d+)? ?m?s\b"
)
"""Moments, digests, ids and durations."""
SHARE = 8
"""A person is asked for every tool, each other recipe for every eighth: each of them for others."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("equal") / "p", config=CONFIG)
    (root / "Makefile").write_text("build:\n\t@echo built\n", encoding="utf-8")
    return root


def sample(tool: Mapping[str, Any]) -> dict[str, object]:
    """Return minimal arguments of a tool: the required ones."""
    schema = tool["inputSchema"]
    return {
        name: (rule.get("enum") or [SAMPLES.get(str(rule.get("type")), "auth")])[0]
        for name, rule in schema["properties"].items()
        if name in schema.get("required", ())
    }


def client_call(driver: Driver, tool: str, arguments: Mapping[str, object]) -> tuple[bool, str]:
    """Return whether a client's call is refused, and its answer."""
    try:
        return driver.ask(tool, arguments)
    except MCPError as error:
        hint = f"\nhint: {error.error.data}" if error.error.data else ""
        return True, f"{error.error.message}{hint}"


def without_log(text: str) -> str:
    """Text without the lines of a server's log."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith('{"level"'))


def steady(text: str, root: Path) -> str:
    return VARYING.sub("…", text.replace(str(root), "ROOT"))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("share", [SHARE, pytest.param(1, marks=pytest.mark.soak)])
def test_a_call_is_answered_as_a_client_is(
    model: Path, tmp_path: Path, recipe: str, share: int
) -> None:
    """Of two projects that are alike, one is asked by a client, the other from the shell."""
    ours, theirs = (made_here(shutil.copytree(model, tmp_path / name / "p")) for name in "ab")
    policy = emitted_policy(ours)
    every = 1 if recipe == "manual" else share
    compared = 0
    with ExitStack() as stack:
        for kit in KITS:
            driver = stack.enter_context(connected(theirs, recipe, kit=kit))
            listed = {tool["name"]: tool for tool in driver.tools()}
            tools = policy["recipes"]["manual"]["tools"][kit]
            for tool in tools[RECIPES.index(recipe) % every :: every]:
                arguments = sample(listed[tool]) if tool in listed else {}
                refused, text = client_call(driver, tool, arguments)
                given = ["--json", json.dumps(arguments), "--recipe", recipe, *ROWS.get(recipe, ())]
                done = ralphgen("call", f"{kit}:{tool}", *given, cwd=ours)
                told = without_log(done.stderr) if refused else done.stdout
                expected = f"{'error: ' * refused}{text}\n"
                assert (int(refused), steady(expected, theirs)) == (
                    done.returncode,
                    steady(told, ours),
                ), (kit, tool, arguments)
                compared += 1

    assert compared > 60 // every - len(KITS)
