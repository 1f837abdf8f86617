"""Five tools without a prefix over stdio: arguments, errors and undisturbed frames."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import (
    TYPES,
    Rye,
    rye_project,
    serving,
    session,
)

OFF = 'policy = "off"'


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session on a project with an item of every type; read-only."""
    with serving(tmp_path_factory.mktemp("protocol"), settings=OFF) as found:
        for item_type in TYPES:
            found.put(item_type, "demo/sample")
        yield found


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_every_tool_answers_a_client_of_either_era(tmp_path: Path, era: Any) -> None:
    with serving(tmp_path, settings=OFF, era=era) as rye:
        rye.put("tool", "demo/sample")
        found = rye.found("sample")
        source = rye.load("tool", "demo/sample")["source"]
        ran = rye.run("tool", "demo/sample", who="Bob")["data"]["params"]
        signed = rye.sign("tool", "demo/sample")["status"]
        helped = rye.says("help")["topic"]

    assert (["demo/sample"], "project", {"who": "Bob"}) == (found, source, ran)
    assert ("signed", "overview") == (signed, helped)


@pytest.mark.parametrize(
    ("tool", "given", "named"),
    [
        ("search", {"query": ""}, "item_type"),
        ("search", {"item_type": "all"}, "query"),
        ("search", {"item_type": "all", "query": "", "project_path": None}, "project_path"),
        ("search", {"item_type": "system", "query": ""}, "item_type"),
        ("search", {"item_type": "all", "query": 5}, "query"),
        ("search", {"item_type": "all", "query": "", "limit": "five"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": "true"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": "[5]"}, "limit"),
        ("search", {"item_type": "all", "query": "", "limit": True}, "limit"),
        ("search", {"item_type": "all", "query": "", "filters": []}, "filters"),
        ("search", {"item_type": "all", "query": "", "fuzzy": True}, "fuzzy"),
        ("search", {"item_type": "all", "query": "", "fuzzy": {"on": True}}, "fuzzy"),
        ("search", {"item_type": "all", "query": "", "fuzzy": {"max_distance": 4}}, "max_distance"),
        ("search", {"item_type": "all", "query": "", "fields": {}}, "fields"),
        ("search", {"item_type": "all", "query": "", "sort_by": "size"}, "sort_by"),
        ("load", {"item_type": "all", "item_id": "demo/sample"}, "item_type"),
        ("load", {"item_type": "tool"}, "item_id"),
        ("load", {"item_type": "tool", "item_id": ["demo/sample"]}, "item_id"),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "source": "all"}, "source"),
        ("load", {"item_type": "tool", "item_id": "demo/sample", "overwrite": 1}, "overwrite"),
        ("execute", {"item_type": "tool", "item_id": "demo/sample", "parameters": "x"}, "paramet"),
        ("execute", {"item_type": "tool", "item_id": "demo/sample", "timeout": 5}, "timeout"),
        ("sign", {"item_type": "tool", "item_id": "demo/sample", "source": "system"}, "source"),
        ("sign", {"item_type": "tool", "item_id": "demo/sample", "location": "user"}, "location"),
        ("help", {"topic": 5}, "topic"),
    ],
)
def test_wrong_arguments_are_refused_by_naming_them(
    rye: Rye, tool: str, given: dict[str, Any], named: str
) -> None:
    error = rye.refuses(tool, **given)

    assert "VALIDATION_FAILED" == error["code"]
    assert named in error["message"]


def test_two_sessions_on_one_project_see_each_others_items(tmp_path: Path) -> None:
    root = rye_project(tmp_path / "project")
    with session(tmp_path, root) as one, session(tmp_path, root) as other:
        before = other.found("needle")
        one.put("knowledge", "needle")
        after = [one.found("needle"), other.found("needle")]
        one.sign("knowledge", "needle")
        state = other.load("knowledge", "needle")["signature"]["state"]

    assert ([], [["needle"], ["needle"]], "valid") == (before, after, state)
