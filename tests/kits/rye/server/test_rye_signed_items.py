"""Signed items run, changed items do not, and the first signing creates the only key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rye_projects import Rye, knowledge, put, python_tool, serving


@pytest.fixture
def rye(tmp_path: Path) -> Iterator[Rye]:
    """Yield a session on a new project."""
    with serving(tmp_path) as rye:
        yield rye


def run(rye: Rye, item_id: str) -> str:
    """Run a tool; return the code of the refusal, or "ran"."""
    failed, answer = rye.ask("execute", item_type="tool", item_id=item_id)
    return str(answer["error"]["code"]) if failed else "ran"


def test_a_tool_runs_once_it_is_signed_and_until_it_is_changed(rye: Rye) -> None:
    path = rye.put("tool", "demo/a", python_tool("demo/a"))
    codes = [run(rye, "demo/a")]
    rye.sign("tool", "demo/a")
    codes.append(run(rye, "demo/a"))
    path.write_bytes(path.read_bytes() + b"\nimport os\n")
    codes.append(run(rye, "demo/a"))
    rye.sign("tool", "demo/a")
    codes.append(run(rye, "demo/a"))

    assert ["UNSIGNED", "ran", "INTEGRITY_FAILED", "ran"] == codes


def test_every_way_of_reading_an_item_says_the_same_of_it(rye: Rye) -> None:
    path = rye.put("knowledge", "a", knowledge("a"))
    states = []
    for change in (lambda: None, lambda: rye.sign("knowledge", "a"), lambda: put(path, "x")):
        change()
        states.append(rye.load("knowledge", "a")["signature"]["state"])

    assert ["unsigned", "valid", "unsigned"] == states


def test_a_refusal_is_an_object_with_its_issues(rye: Rye) -> None:
    rye.put("tool", "a", python_tool("a", "def execute(:\n"))
    rye.put("tool", "b", python_tool("b"))
    refusal = rye.refuses("sign", item_type="tool", item_id="a")
    several = rye.sign("tool", "*")

    assert ("VALIDATION_FAILED", 1) == (refusal["code"], len(refusal["issues"]))
    assert ("partial", ["b"]) == (several["status"], several["signed"])
    assert refusal["issues"] == several["failed"][0]["issues"]


def test_where_none_of_several_is_signed_the_answer_is_an_error(rye: Rye) -> None:
    rye.put("tool", "a", "x = \n")
    refusal = rye.refuses("sign", item_type="tool", item_id="*")

    assert ("a", 1) == (refusal["failed"][0]["item"], refusal["total"])
