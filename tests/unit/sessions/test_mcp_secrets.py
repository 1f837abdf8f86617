"""The secrets of a persona's MCP servers are in the session's own config, and nowhere else."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen, ran, texts
from driving import made_here
from making_sessions import opened
from persona_servers import EVENTS, PRIVATE, REMOTE, REMOTE_CONFIG, servers_project, stored

from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_project(tmp_path_factory.mktemp("servers"))


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(
        shutil.copytree(project, tmp_path / "own", ignore=shutil.ignore_patterns("sessions"))
    )


@pytest.fixture
def remote(own: Path) -> Path:
    """A project with a discipline that has remote servers."""
    stored(own, "backend", [REMOTE, EVENTS])
    (own / ".ralph/ralphgen.toml").write_text(REMOTE_CONFIG, encoding="utf-8")
    return made_here(own)


def test_the_preview_of_a_remote_server_holds_no_secret(remote: Path) -> None:
    told = ralphgen(
        "session", "create", "yap", "--discipline", "backend", "--project", remote
    ).stderr

    begin = '  discipline "backend" connects to '
    assert [
        '"tickets" at https://…@tickets.example:8443/mcp?… with Authorization=…',
        '"events" at http://localhost:1/sse',
        '"wiki" at https://wiki.example/mcp#… with X-Key=… with X-Other=…',
    ] == [line.removeprefix(begin) for line in told.splitlines() if line.startswith(begin)]
    for arguments in COMMANDS.values():
        done = ralphgen(*arguments, remote)
        assert PRIVATE not in done.stdout + done.stderr


TABLE = "[disciplines.backend.mcp_servers.docs]\n"
BAD_CONFIGS = {
    "reserved": (
        '[disciplines.backend.mcp_servers.ralph]\ncommand = "x"\n',
        ':1: the MCP server name "ralph" is used by one of the project\'s servers',
    ),
    "a name with a space": (
        '[disciplines.backend.mcp_servers."a b"]\ncommand = "x"\n',
        ':1: invalid MCP server name "a b": use letters',
    ),
    "no command": (TABLE + "args = []\n", 'mcp_servers.docs.command" is missing'),
    "a blank command": (TABLE + 'command = " "\n', ":2: "),
    "arguments that are numbers": (TABLE + 'command = "x"\nargs = ["a", 1]\n', ':3: "'),
    "a variable that is a number": (TABLE + 'command = "x"\nenv.KEY = 12345678\n', "***"),
    "a variable in a list": (TABLE + f'command = "x"\nenv.KEY = ["{PRIVATE}"]\n', "***"),
    "a variable in a table": (TABLE + f'command = "x"\nenv.KEY = {{a = "{PRIVATE}"}}\n', "***"),
    "variables in a list": (TABLE + f'command = "x"\nenv = ["{PRIVATE}"]\n', "***"),
    "variables in one text": (TABLE + f'command = "x"\nenv = "KEY={PRIVATE}"\n', "***"),
    "an unknown key": (TABLE + 'command = "x"\nenvs = 1\n', 'did you mean "env"?'),
    "no type": (TABLE + 'url = "https://a/b"\n', 'mcp_servers.docs.type" is missing'),
    "an unknown type": (TABLE + 'type = "ws"\nurl = "https://a"\n', "'http' or 'sse'"),
    "no address": (TABLE + f'type = "http"\nurl = "{PRIVATE}"\n', "starts with http://"),
    "a header that is a number": (
        TABLE + 'type = "http"\nurl = "https://a"\nheaders.X = 12345678\n',
        "***",
    ),
    "an unknown key of a server elsewhere": (
        TABLE + 'type = "http"\nurl = "https://a"\nheader = {}\n',
        'did you mean "headers"?',
    ),
    "no end of a text": (TABLE + f'command = "x"\nenv.KEY = "{PRIVATE}\n', "invalid TOML"),
}
LEAKING = {
    "servers in a list": f'mcp_servers = [{{name = "x", env = {{KEY = "{PRIVATE}"}}}}]\n',
    "a server in a list": f'mcp_servers.docs = [{{env = {{KEY = "{PRIVATE}"}}}}]\n',
}


@pytest.mark.parametrize(("text", "expected"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_settings_that_cannot_be_used_are_refused_without_their_values(
    own: Path, text: str, expected: str
) -> None:
    (own / ".ralph" / "ralphgen.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        opened(own, "yap", discipline="backend")

    assert expected in str(caught.value)
    assert ".ralph/ralphgen.toml:" in str(caught.value)
    assert PRIVATE not in str(caught.value)
    assert "12345678" not in str(caught.value)


@pytest.mark.parametrize("text", LEAKING.values(), ids=LEAKING)
def test_a_deeply_nested_secret_is_not_shown(own: Path, text: str) -> None:
    config = own / ".ralph" / "ralphgen.toml"
    config.write_text(f"[disciplines.backend]\n{text}", encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        opened(own, "yap", discipline="backend")

    assert PRIVATE not in str(caught.value)


COMMANDS = {
    "session": ["session", "create", "yap", "--discipline", "backend", "--project"],
    "session --json": [
        "session",
        "create",
        "yap",
        "--discipline",
        "backend",
        "--json",
        "--project",
    ],
    "default": ["session", "create", "yap", "--discipline", "backend", "--default", "--project"],
    "list": ["session", "list", "--json", "--project"],
    "launch": ["launch", "task_execution", "--task", "1", "--dry-run", "--project"],
    "check": ["check", "--json"],
    "inspect": ["inspect", "--json", "--project"],
    "tools": ["tools", "--json", "--project"],
    "connect": ["connect", "claude", "--print", "--project"],
    "regen": ["regen", "--force"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_no_command_prints_a_secret(project: Path, arguments: list[str]) -> None:
    done = ralphgen(*arguments, project)

    assert 0 == done.returncode, done.stderr
    assert PRIVATE not in done.stdout + done.stderr
    if "--project" in arguments and "backend" in arguments and "--json" in arguments:
        assert ["docs", "Bare_2-x", "search"] == json.loads(done.stdout)["mcp_servers"]


def test_secrets_are_written_into_the_sessions_config_and_into_no_other_file(own: Path) -> None:
    ran("regen", own)
    opened(own, "yap", discipline="backend")
    found = [
        name for name, data in texts(own / ".ralph" / "mcp").items() if PRIVATE.encode() in data
    ]

    (only,) = found
    assert only.startswith("sessions/yap-")
    assert only.endswith("/mcp.json")
