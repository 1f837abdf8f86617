"""The log of RYE_DEBUG on standard error, and the data that it omits."""

import json
from pathlib import Path
from typing import Any

import pytest
from rye_projects import python_tool, serving
from rye_workspaces import opened

from ralphgen.kits.rye.server import items


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the log lines about calls."""
    text = (folder / "log.txt").read_text(encoding="utf-8")
    told = [json.loads(line) for line in text.splitlines()]
    return [line["data"] for line in told if line["level"] == "debug"]


@pytest.mark.thorough
def test_each_call_is_told_with_its_item_and_its_milliseconds(tmp_path: Path) -> None:
    with serving(tmp_path, environment={"RYE_DEBUG": " on "}) as rye:
        rye.put("tool", "demo/echo")
        rye.says("help", topic="tools")
        rye.sign("tool", "demo/echo")
        rye.run("tool", "demo/echo", who="hush")
        rye.refuses("load", item_type="tool", item_id="demo/nothing")
    told = lines(tmp_path)

    assert [
        {"tool": "help", "topic": "tools", "outcome": "done"},
        {"tool": "sign", "item_type": "tool", "item_id": "demo/echo", "outcome": "done"},
        {"tool": "execute", "item_type": "tool", "item_id": "demo/echo", "outcome": "done"},
        {
            "tool": "load",
            "item_type": "tool",
            "item_id": "demo/nothing",
            "outcome": "ITEM_NOT_FOUND",
        },
    ] == [{name: value for name, value in line.items() if name != "milliseconds"} for line in told]
    assert all(0 <= line["milliseconds"] < 30_000 for line in told)


@pytest.mark.thorough
def test_the_time_of_a_tool_is_that_until_it_has_ended(tmp_path: Path) -> None:
    code = "import time\n\ndef execute(params, project_path):\n    time.sleep(0.3)\n"
    settings = 'policy = "off"'
    with serving(tmp_path, settings=settings, environment={"RYE_DEBUG": "1"}) as rye:
        rye.put("tool", "demo/slow", python_tool("demo/slow", code))
        rye.run("tool", "demo/slow")
    (line,) = lines(tmp_path)

    assert 300 <= line["milliseconds"]


def test_neither_parameters_nor_queries_are_told(tmp_path: Path) -> None:
    with serving(tmp_path, environment={"RYE_DEBUG": "1"}) as rye:
        rye.put("tool", "demo/echo")
        rye.sign("tool", "demo/echo")
        rye.run("tool", "demo/echo", who="hush")
        rye.found("hush")
        rye.refuses("execute", item_type="directive", item_id="demo/echo", parameters={"a": "hush"})

    assert 4 == len(lines(tmp_path))
    assert "hush" not in (tmp_path / "log.txt").read_text(encoding="utf-8")


def test_without_it_no_call_is_told_and_a_port_means_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, environment={"RYE_DEBUG": "", "RYE_PORT": "no number"}) as rye:
        assert 9 == rye.says("search", item_type="all", query="", source="system")["total"]

    assert "" == (tmp_path / "log.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("word", "logs"),
    [
        *((word, True) for word in ("1", "true", "Yes", " on ")),
        *((word, False) for word in ("", "0", "false", "off", "2")),
    ],
)
def test_some_words_ask_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
    *,
    logs: bool,
) -> None:
    monkeypatch.setenv("RYE_DEBUG", word)
    with opened(tmp_path) as workspace:
        items.search(
            workspace.rye, {"item_type": "all", "query": "x", "project_path": str(workspace.root)}
        )

    assert logs == ('"tool": "search"' in capsys.readouterr().err)
