"""Structured content: which sessions get it, and that it is what the text is."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import Driver, connected, create_project, edit, made_here, quiet
from http_servers import CONFIG, http_client, serving, token
from jsonschema import Draft202012Validator
from wire import running

from ralphgen.emit.workflows import regenerate

FLAG = "--structured-output"
CLOSED = {"additionalProperties": False}
TASK = """
INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'FFFF');
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    VALUES ('d', 'D', 'D', 'I', '#000000');
INSERT INTO tasks (id, feature, discipline, title, status) VALUES (1, 'f', 'd', 'T', 'pending');
"""


def list_tools(root: Path, *options: str) -> list[dict[str, Any]]:
    """The tools of a session without a context."""
    with running(root, *options) as server:
        server.shake_hands()
        tools: list[dict[str, Any]] = server.ask("tools/list")["result"]["tools"]
        call = server.ask("tools/call", {"name": "list_tasks", "arguments": {}})["result"]
        assert ("structuredContent" in call) == any("outputSchema" in one for one in tools)
        server.leave()
    return tools


@pytest.mark.parametrize(
    ("config", "without", "with_flag"),
    [
        ("", False, True),
        ('structured_output = "auto"\n', False, True),
        ("structured_output = true\n", True, True),
        ("structured_output = false\n", False, False),
    ],
)
def test_the_setting_decides_and_auto_leaves_it_to_the_command_line(
    tmp_path: Path, config: str, *, without: bool, with_flag: bool
) -> None:
    root = create_project(tmp_path / "p", config=config)

    for _ in range(3):  # also once the list was cached
        assert without == any("outputSchema" in tool for tool in list_tools(root))
        assert with_flag == any("outputSchema" in tool for tool in list_tools(root, FLAG))


@pytest.mark.parametrize(("options", "expected"), [((), False), ((FLAG,), True)])
def test_a_server_reads_the_schemas_only_if_they_are_used(
    tmp_path: Path, options: tuple[str, ...], *, expected: bool
) -> None:
    root = create_project(tmp_path / "p")
    edit(root, "ralph/answers.py", more='\nimport sys\nsys.stderr.write("schemas were read\\n")\n')

    with running(root, *options) as server:
        server.shake_hands()
        server.ask("tools/list")
        server.ask("tools/call", {"name": "get_task", "arguments": {"id": 1}})
        server.leave()
        assert 0 == server.end()
        assert expected == ("schemas were read" in server.errors())


def checked(driver: Driver, tool: str, **arguments: Any) -> Any:
    """The structured content of an answer, which is its text and has no field besides."""
    (entry,) = [one for one in driver.tools() if one["name"] == tool]
    text, content = driver.both(tool, arguments)
    assert json.loads(text) == content
    if "outputSchema" in entry:
        Draft202012Validator({**entry["outputSchema"], **CLOSED}).validate(content)
    return content


def served(root: Path) -> Any:
    regenerate(root, force=False, say=quiet)
    return connected(made_here(root))


def test_answers_of_named_queries_match_their_schemas(tmp_path: Path) -> None:
    with served(lay_down("queries", tmp_path / "p", TASK)) as driver:
        typed = {tool["name"] for tool in driver.tools() if "outputSchema" in tool}
        assert {"risks_of", "longest_titles", "task_titled"} <= typed
        assert not {"note_risk", "forget_risk"} & typed
        (row,) = checked(driver, "longest_titles")["rows"]
        assert {"id", "title", "characters"} == row.keys()
        assert {"row": {"id": 1, "status": "pending"}} == checked(driver, "task_titled", title="T")
        assert {"row": None} == checked(driver, "task_titled", title="none")
        assert 1 == checked(driver, "note_risk", code="z", task=1, title="new")["changed"]
        (risk,) = checked(driver, "risks_of", task=1, most=5)["rows"]
        assert "z" == risk["code"]


def test_answers_of_table_tools_match_their_schemas(tmp_path: Path) -> None:
    root = lay_down("tables", tmp_path / "p")
    config = root / ".ralph/ralphgen.toml"
    text = "structured_output = true\n" + config.read_text(encoding="utf-8")
    config.write_text(text, encoding="utf-8")
    with served(root) as driver:
        typed = {tool["name"] for tool in driver.tools() if "outputSchema" in tool}
        key = checked(driver, "create_risk", title="Late", severity=3)
        assert {"list_risks", "get_risk", "list_releases", "get_release"} <= typed
        assert not {"create_risk", "update_risk", "delete_risk"} & typed
        assert key["id"] in [row["id"] for row in checked(driver, "list_risks")["risks"]]
        assert "Late" == checked(driver, "get_risk", **key)["title"]
        assert ["title"] == checked(driver, "update_risk", **key, title="Later")["changed"]
        assert key == checked(driver, "delete_risk", **key)["deleted"]


@pytest.mark.parametrize("recipe", ["manual", "interactive"])
def test_content_and_schemas_are_equal_over_http_and_stdio(tmp_path: Path, recipe: str) -> None:
    root = create_project(tmp_path / "p", config=f"structured_output = true\n{CONFIG}")
    with serving(root) as server, http_client(server, token(root, recipe)) as client:
        remote = client.tools(), checked(client, "get_task", id=1)
    with connected(root, recipe, user=None) as driver:
        assert remote == (driver.tools(), checked(driver, "get_task", id=1))
    assert any("outputSchema" in tool for tool in remote[0])
