"""The user's policy decides which items run; the files of a project cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import (
    HTTP_CLIENT,
    Rye,
    permissions,
    put,
    python_tool,
    rye_project,
    session,
    yaml_tool,
)

MARKS = """
def execute(params, project_path):
    import pathlib
    pathlib.Path(project_path, "made").touch()
    return {}
"""
LOWERED = [
    "",
    'policy = "off"',
    'policy = "warn"',
    'policy = "integrity"',
    '[rye.policy]\ntool = "off"',
    '[rye.policy]\ntool = "warn"',
]


def opened(folder: Path, settings: str, own: str = "", **given: Any) -> Iterator[Rye]:
    """Yield a session on a project for a user, whose policy is `own` if not empty."""
    root = rye_project(folder / "project", settings)
    if own:
        put(folder / "user/.ai/rye.toml", own).chmod(0o600)
    with session(folder, root, permits=False, **given) as rye:
        yield rye


@pytest.mark.thorough
@pytest.mark.parametrize("space", ["project", "user"])
@pytest.mark.parametrize("settings", LOWERED)
def test_no_setting_lets_an_unsigned_tool_run(tmp_path: Path, settings: str, space: str) -> None:
    for rye in opened(tmp_path, settings):
        rye.put("tool", "hello", python_tool("hello", MARKS), space=space)
        error = rye.refuses("execute", item_type="tool", item_id="hello")

        assert ("UNSIGNED", "trusted") == (error["code"], error["policy"])
        assert not (rye.root / "made").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("settings", LOWERED)
def test_a_tool_that_its_author_signed_with_any_key_does_not_run(
    tmp_path: Path, settings: str
) -> None:
    author = tmp_path / "author"
    for rye in opened(author, ""):
        signed = rye.signed("tool", "hello", python_tool("hello", MARKS)).read_bytes()
        keys = [*rye.user.glob("*keys/*.pem")]
    for rye in opened(tmp_path / "user", settings):
        rye.put("tool", "hello", signed)
        for key in keys:
            put(rye.project / key.parent.name / key.name, key.read_bytes())
        error = rye.refuses("execute", item_type="tool", item_id="hello")

        assert "UNTRUSTED_KEY" == error["code"]
        assert not (rye.root / "made").exists()


def test_a_tool_that_the_user_signed_runs(tmp_path: Path) -> None:
    for rye in opened(tmp_path, ""):
        rye.signed("tool", "hello", python_tool("hello", MARKS))
        rye.run("tool", "hello")

        assert (rye.root / "made").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("own", "settings", "runs"),
    [
        ({"policy": "off"}, "", True),
        ({"policy": {"tool": "warn"}}, "", True),
        ({"policy": {"directive": "off"}}, "", False),
        ({"policy": "off"}, 'policy = "trusted"', False),
        ({"policy": "off"}, '[rye.policy]\ntool = "integrity"', False),
        ({"policy": "integrity"}, 'policy = "off"', False),
    ],
)
def test_the_stricter_policy_of_user_and_project_counts(
    tmp_path: Path, own: dict[str, Any], settings: str, runs: bool
) -> None:
    for rye in opened(tmp_path, settings, permissions(**own)):
        rye.put("tool", "hello", python_tool("hello", MARKS))
        rye.ask("execute", item_type="tool", item_id="hello")

        assert runs == (rye.root / "made").exists()


@pytest.mark.parametrize("place", ["project", "link"])
def test_a_policy_in_the_project_is_not_the_users(tmp_path: Path, place: str) -> None:
    root = rye_project(tmp_path / "project")
    brought = put(root / ".ai/rye.toml", permissions(policy="off"))
    environment = {"USER_SPACE": str(root / ".ai")}
    if place == "link":
        own = tmp_path / "user/.ai/rye.toml"
        own.parent.mkdir(parents=True)
        own.symlink_to(brought)
        environment = {}
    with session(tmp_path, root, permits=False, environment=environment) as rye:
        rye.put("tool", "hello", python_tool("hello", MARKS))
        rye.refuses("execute", item_type="tool", item_id="hello")

    assert not (root / "made").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "own", ["policy = 1", 'policy = "loose"', "policy = {tools = 'off'}", "hosts = 1", "x = 1", "["]
)
def test_a_policy_that_cannot_be_understood_permits_nothing(tmp_path: Path, own: str) -> None:
    for rye in opened(tmp_path, "", own):
        rye.signed("tool", "hello", python_tool("hello", MARKS))
        error = rye.refuses("execute", item_type="tool", item_id="hello")

        assert "is invalid" in error["message"]
        assert not (rye.root / "made").exists()


def test_a_policy_that_others_can_write_permits_nothing(tmp_path: Path) -> None:
    root = rye_project(tmp_path / "project")
    put(tmp_path / "user/.ai/rye.toml", permissions(policy="off")).chmod(0o666)
    with session(tmp_path, root, permits=False) as rye:
        rye.put("tool", "hello", python_tool("hello", MARKS))
        error = rye.refuses("execute", item_type="tool", item_id="hello")

    assert "other users can write to" in error["message"]


@pytest.mark.parametrize(("own", "given"), [({}, None), ({"env": ["API_TOKEN"]}, "***")])
def test_a_tool_gets_a_variable_only_if_the_user_permits_it(
    tmp_path: Path, own: dict[str, Any], given: str | None
) -> None:
    code = (
        "def execute(params, project_path):\n    import os\n"
        '    return {"found": os.environ.get("API_TOKEN")}\n'
    )
    policy = permissions(policy="off", **own)
    environment = {"API_TOKEN": "secret"}
    for rye in opened(tmp_path, 'env = ["API_TOKEN"]', policy, environment=environment):
        rye.put("tool", "hello", python_tool("hello", code))

        assert given == rye.run("tool", "hello")["data"]["found"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        (["127.0.0.1:9"], "is not a public host"),
        (["localhost:9", "127.0.0.1"], "is not an allowed host"),
        (["example.com"], "is not an allowed host"),
    ],
)
def test_the_hosts_of_a_project_open_no_host_that_is_not_public(
    tmp_path: Path, hosts: list[str], why: str
) -> None:
    config = {"method": "GET", "url": "http://127.0.0.1:9/"}
    tool = yaml_tool("ask", executor_id=HTTP_CLIENT, tool_type="http", config=config)
    named = ", ".join(f'"{host}"' for host in hosts)
    for rye in opened(tmp_path, f"hosts = [{named}]", permissions(policy="off")):
        rye.put("tool", "ask", tool, extension=".yaml")
        error = rye.refuses("execute", item_type="tool", item_id="ask")

        assert why in error["message"]


def test_the_policy_is_fixed_when_the_server_is_written(tmp_path: Path) -> None:
    """Neither the config nor the emitted settings are read while it runs."""
    for rye in opened(tmp_path, 'policy = "trusted"', 'policy = "off"'):
        rye.put("tool", "hello", python_tool("hello", MARKS))
        for name in (".ralph/ralphgen.toml", ".ralph/mcp/rye/settings.py"):
            text = (rye.root / name).read_text(encoding="utf-8")
            put(rye.root / name, text.replace("trusted", "off"))

            assert "UNSIGNED" == rye.refuses("execute", item_type="tool", item_id="hello")["code"]


def test_a_trusted_tool_does_not_run_in_the_python_of_a_repository(tmp_path: Path) -> None:
    for rye in opened(tmp_path, ""):
        rye.signed("tool", "hello", python_tool("hello", MARKS))
        put(rye.root / ".venv/bin/python", "#!/bin/sh\ntouch brought\n").chmod(0o755)
        (warning,) = rye.run("tool", "hello")["metadata"]["warnings"]

        assert 'the project\'s own ".venv" is not used under the policy "trusted"' in warning
        assert (rye.root / "made").exists()
        assert not (rye.root / "brought").exists()
