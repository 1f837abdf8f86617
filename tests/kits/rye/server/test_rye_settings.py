"""The `[rye]` table of the config: valid settings and their effect on the server."""

from pathlib import Path
from typing import Any

import pytest
from rye_projects import python_tool, rye_project, serving

from ralphgen.errors import ProjectError

DEFAULTS = {"directive": "off", "tool": "off", "knowledge": "off"}


def settings_of(root: Path) -> dict[str, Any]:
    """Return the settings in an emitted server."""
    scope: dict[str, Any] = {}
    text = (root / ".ralph/mcp/rye/settings.py").read_text(encoding="utf-8")
    exec(compile(text, "settings.py", "exec"), scope)  # noqa: S102
    settings: dict[str, Any] = scope["SETTINGS"]
    return settings


def problem(folder: Path, settings: str) -> str:
    """Return the only problem of a config with these settings."""
    with pytest.raises(ProjectError) as refused:
        rye_project(folder / "project", settings)
    (found,) = refused.value.problems
    return found.text


def test_without_settings_a_project_is_no_stricter_than_the_user(tmp_path: Path) -> None:
    found = settings_of(rye_project(tmp_path / "project"))

    assert {"policy": DEFAULTS, "hosts": (), "max_timeout": 300, "env": ()} == found


def test_one_word_is_the_policy_of_all_types(tmp_path: Path) -> None:
    found = settings_of(rye_project(tmp_path / "project", 'policy = "trusted"'))

    assert dict.fromkeys(DEFAULTS, "trusted") == found["policy"]


def test_a_table_changes_the_policy_of_the_types_that_it_names(tmp_path: Path) -> None:
    found = settings_of(rye_project(tmp_path / "project", 'policy = { tool = "trusted" }'))

    assert {**DEFAULTS, "tool": "trusted"} == found["policy"]


def test_hosts_and_variables_are_taken_as_they_are_meant(tmp_path: Path) -> None:
    lines = 'hosts = ["API.Example.com", "[::1]:80"]\nenv = ["TOKEN_1"]\nmax_timeout = 3600'
    found = settings_of(rye_project(tmp_path / "project", lines))

    assert (("api.example.com", "[::1]:80"), ("TOKEN_1",), 3_600) == (
        found["hosts"],
        found["env"],
        found["max_timeout"],
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            'policy = "strict"',
            (
                '"rye.policy" is "strict", expected one of "off", "warn", "integrity", "trusted", '
                "or a table of types"
            ),
        ),
        ("policy = { tools = 1 }", 'unknown key "rye.policy.tools"'),
        (
            'policy = { tool = "none" }',
            "\"rye.policy.tool\" is \"none\", expected 'off', 'warn', 'integrity' or 'trusted'",
        ),
        (
            'hosts = ["https://api.example.com"]',
            ('"rye.hosts[0]" is "https://api.example.com", expected a host or host:port'),
        ),
        ('env = ["A=b"]', '"rye.env[0]" is ***, expected the name of an environment variable'),
        ("max_timeout = 0", '"rye.max_timeout" is 0, expected greater than or equal to 1'),
        ("max_timeout = 3601", '"rye.max_timeout" is 3601, expected less than or equal to 3600'),
        ("max_timeout = true", '"rye.max_timeout" is true, expected a valid integer'),
        ('help = "no"', '"rye.help" is "no", expected true or false'),
        ("port = 8000", 'unknown key "rye.port"'),
    ],
)
def test_what_a_setting_cannot_be_is_refused_with_its_line(
    tmp_path: Path, settings: str, sentence: str
) -> None:
    assert f".ralph/ralphgen.toml:3: {sentence}" == problem(tmp_path, settings)


def test_without_help_there_is_no_such_tool_and_the_reason_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, settings="help = false") as rye:
        names = rye.driver.names()
        _, message = rye.driver.protocol_error("help")

    assert ["search", "load", "execute", "sign"] == names
    assert 'Unknown tool: "help": disabled in the config' == message


def test_without_help_a_discipline_that_takes_it_away_is_no_typo(tmp_path: Path) -> None:
    root = rye_project(
        tmp_path / "project", "help = false", more='[disciplines.backend]\ndisable = ["rye:help"]'
    )

    assert (root / ".ralph/mcp/server.py").exists()


def test_a_tool_runs_no_longer_than_the_server_allows(tmp_path: Path) -> None:
    code = "import time\n\ndef execute(params, project_path):\n    time.sleep(30)\n"
    with serving(tmp_path, settings='max_timeout = 1\npolicy = "off"') as rye:
        rye.put("tool", "demo/slow", python_tool("demo/slow", code, CONFIG={"timeout": 20}))
        error = rye.refuses("execute", item_type="tool", item_id="demo/slow")

    assert "TIMEOUT" == error["code"]


@pytest.mark.parametrize(
    ("settings", "expected"), [("", None), ('env = ["LENT"]', "from the server")]
)
def test_a_tool_gets_a_variable_of_the_server_where_the_config_lends_it(
    tmp_path: Path, settings: str, expected: str | None
) -> None:
    code = 'import os\n\ndef execute(params, project_path):\n    return [os.environ.get("LENT")]\n'
    lent = {"LENT": "from the server"}
    with serving(tmp_path, settings=f'{settings}\npolicy = "off"', environment=lent) as rye:
        rye.put("tool", "demo/asks", python_tool("demo/asks", code))
        answer = rye.run("tool", "demo/asks")

    assert [expected] == answer["data"]
