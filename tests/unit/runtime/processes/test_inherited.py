"""The inherited variables: no key of the project, under any name."""

import json
from pathlib import Path

import pytest

from ralphgen.runtime.processes.secrets import passed_on

CONFIG = {"http": {"key_env": "SHOP_KEY"}, "postgresql": {"dsn_env": "SHOP_DSN"}}
USUAL = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*USUAL, "SHOP_KEY", "SHOP_DSN", "SHOP"):
        monkeypatch.setenv(name, "secret")
    (tmp_path / "project.json").write_text(json.dumps({"config": CONFIG}), encoding="utf-8")
    return tmp_path


def test_started_processes_get_no_key(folder: Path) -> None:
    found = passed_on(str(folder))

    assert not {*USUAL, "SHOP_KEY", "SHOP_DSN"} & found.keys()
    assert {"SHOP", "PATH"} <= found.keys()


def test_an_agent_has_the_variables_that_open_the_database(folder: Path) -> None:
    found = passed_on(str(folder), to_agent=True)

    assert "SHOP_DSN" in found
    assert not {*USUAL, "SHOP_KEY"} & found.keys()


@pytest.mark.parametrize("text", ["", "[]", '{"config": []}', '{"config": {"http": 1}}'])
def test_the_usual_names_are_always_withheld(folder: Path, text: str) -> None:
    (folder / "project.json").write_text(text, encoding="utf-8")

    assert not {*USUAL} & passed_on(str(folder)).keys()
    assert "SHOP" in passed_on(str(folder / "nowhere"))


def with_list(folder: Path, *names: str) -> None:
    facts = {"config": {**CONFIG, "environment": {"variables": names}}}
    (folder / "project.json").write_text(json.dumps(facts), encoding="utf-8")


def test_only_listed_and_standard_variables_pass_with_a_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard = ("PATH", "HOME", "LANG", "LC_ALL", "LANGUAGE", "https_proxy", "NO_PROXY", "GOPATH")
    for name in (*standard, "JAVA_HOME", "MINE", "OTHER", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "x")
    with_list(folder, "MINE", "RALPH_KEY")
    found = passed_on(str(folder))

    assert {*standard, "JAVA_HOME", "MINE"} <= found.keys()
    assert not {"OTHER", "SHOP", "ANTHROPIC_API_KEY", *USUAL, "SHOP_DSN"} & found.keys()


def test_an_agent_keeps_its_own_variables_with_a_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")
    with_list(folder)
    found = passed_on(str(folder), to_agent=True, also=["ANTHROPIC_*"])

    assert {"ANTHROPIC_API_KEY", "SHOP_DSN", "PATH"} <= found.keys()
    assert not {"OPENAI_API_KEY", "SHOP", *USUAL} & found.keys()
