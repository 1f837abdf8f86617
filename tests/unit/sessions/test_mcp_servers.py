"""The MCP servers of disciplines in a session, and their secrets."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, ran, texts
from driving import made_here
from lanes import shortened
from making_sessions import client_of, opened
from persona_servers import (
    BARE,
    DOCS,
    EVENTS,
    PRIVATE,
    REMOTE,
    REMOTE_CONFIG,
    servers,
    servers_project,
    stored,
)

from ralphgen.emit.trust import discipline_items
from ralphgen.emit.workflows import checked
from ralphgen.errors import ProjectError, UntrustedError
from ralphgen.project.config import Config
from ralphgen.project.root import SESSIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_project(tmp_path_factory.mktemp("servers"))


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(
        shutil.copytree(project, tmp_path / "own", ignore=shutil.ignore_patterns("sessions"))
    )


def test_the_config_holds_the_project_then_the_column_then_the_settings(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    ralph, *others = servers(session.mcp_config).items()

    assert ("ralph", {"command", "args"}) == (ralph[0], set(ralph[1]))
    expected = [
        ("docs", {"command": "docs-server", "args": ["--port", "1"], "env": {"KEY": PRIVATE}}),
        ("Bare_2-x", {"command": "/opt/my tools/run", "args": []}),
        (
            "search",
            {
                "command": "find it",
                "args": ["", "a b", "ü"],
                "env": {"TOKEN": PRIVATE, "EMPTY": ""},
            },
        ),
    ]
    assert expected == others
    assert ("docs", "Bare_2-x", "search") == session.other_servers
    assert 0o600 == stat.S_IMODE(session.mcp_config.stat().st_mode)
    with client_of(session.mcp_config) as driver:
        assert 9 == len(driver.names())


@pytest.mark.parametrize(
    ("recipe", "about", "expected"),
    [
        ("yap", {"discipline": "frontend"}, ("design",)),
        ("task_execution", {"task": 2}, ("design",)),
        ("yap", {}, ()),
        ("discuss", {"discipline": "backend"}, ()),
    ],
    ids=["persona", "task", "nobody", "target"],
)
def test_servers_belong_to_their_persona_alone(
    project: Path, recipe: str, about: dict[str, Any], expected: tuple[str, ...]
) -> None:
    session = opened(project, recipe, **about)

    assert expected == session.other_servers
    assert ["ralph", *expected] == list(servers(session.mcp_config))


@pytest.mark.parametrize("value", [None, "", "[]", " [ ] "])
def test_an_empty_column_brings_no_server(own: Path, value: str | None) -> None:
    stored(own, "frontend", value)

    assert ("design",) == opened(own, "yap", discipline="frontend").other_servers


def test_a_change_of_the_column_needs_trust_and_no_regen(own: Path) -> None:
    stored(own, "frontend", [BARE])
    with pytest.raises(UntrustedError, match="Bare_2-x"):
        opened(own, "yap", discipline="frontend")
    made_here(own)

    assert ("Bare_2-x", "design") == opened(own, "yap", discipline="frontend").other_servers


@pytest.fixture
def remote(own: Path) -> Path:
    """A project with a discipline that has remote servers."""
    stored(own, "backend", [REMOTE, EVENTS])
    (own / ".ralph/ralphgen.toml").write_text(REMOTE_CONFIG, encoding="utf-8")
    return made_here(own)


def test_servers_that_run_elsewhere_are_written_unchanged(remote: Path) -> None:
    session = opened(remote, "yap", discipline="backend")
    ralph, *others = servers(session.mcp_config).items()

    assert "ralph" == ralph[0]
    unnamed = [{key: one[key] for key in one if key != "name"} for one in (REMOTE, EVENTS)]
    headers = {"X-Key": PRIVATE, "X-Other": "${TOKEN}"}
    wiki = {"type": "http", "url": f"https://wiki.example/mcp#{PRIVATE}", "headers": headers}
    assert [("tickets", unnamed[0]), ("events", unnamed[1]), ("wiki", wiki)] == others


def test_the_digest_of_trust_covers_the_address_and_the_headers() -> None:
    entry: dict[str, Any] = {key: REMOTE[key] for key in REMOTE if key != "name"}
    changed: list[dict[str, Any]] = [
        {**entry, "url": "https://tickets.example/mcp"},
        {**entry, "headers": {"X-Key": PRIVATE}},
        {**entry, "type": "sse"},
    ]
    digests = {
        item.digest
        for one in (entry, *changed)
        for item in discipline_items("backend", {"tickets": one}, Config())
    }

    assert 4 == len(digests)


def odd(**changes: object) -> list[dict[str, object]]:
    return [{**DOCS, **changes}]


BAD: dict[str, tuple[object, str]] = {
    "reserved": (odd(name="ralph"), '"ralph" is used by one of the project\'s servers'),
    "twice": ([DOCS, DOCS], 'duplicate MCP server "docs"'),
    "in the config too": (odd(name="search"), 'duplicate MCP server "search"'),
    "a name with a space": (odd(name="a b"), '"a b": use letters, digits, - and _'),
    "a name with letters of others": (odd(name="dö"), "use letters"),
    "a name that is a path": (odd(name="../x"), "use letters"),
    "a name of many lines": (odd(name="docs\n"), r'"docs\n": use letters'),
    "a long name": (odd(name="x" * 65), "use letters"),
    "no name": (odd(name=""), '"0.name"'),
    "a name that is a number": (odd(name=1), '"0.name"'),
    "no command": (odd(command=""), '"0.command"'),
    "a blank command": (odd(command=" \t"), '"0.command"'),
    "a missing command": ([{"name": "docs", "env": {"KEY": PRIVATE}}], '"0.command"'),
    "a command in a list": (odd(command=[PRIVATE]), '"0.command"'),
    "arguments that are numbers": (odd(args=["--port", 1]), '"0.args"'),
    "arguments in one text": (odd(args=PRIVATE), '"0.args"'),
    "a variable that is a number": (odd(env={PRIVATE: 1}), '"0.env"'),
    "a variable that is a list": (odd(env={"KEY": [PRIVATE]}), '"0.env"'),
    "variables in a list": (odd(env=[PRIVATE]), '"0.env"'),
    "variables in one text": (odd(env=f"KEY={PRIVATE}"), '"0.env"'),
    "an unknown key": (odd(**{PRIVATE: "http"}), 'see "0"'),
    "an unknown type": ([{**REMOTE, "type": "ws"}], '"0.type"'),
    "an address without a type": ([{"name": "x", "url": f"http://{PRIVATE}"}], '"0.type"'),
    "a command with an address": ([{**REMOTE, "command": "x"}], '"0.command"'),
    "an address of another kind": ([{**REMOTE, "url": f"file:///{PRIVATE}"}], '"0.url"'),
    "an address of two lines": ([{**REMOTE, "url": f"http://a\n{PRIVATE}"}], '"0.url"'),
    "an address without a host": ([{**REMOTE, "url": f"http:///{PRIVATE}"}], '"0.url"'),
    "a header that is a number": ([{**REMOTE, "headers": {PRIVATE: 1}}], '"0.headers"'),
    "the second of two": ([BARE, {**DOCS, "command": 7}], '"1.command"'),
    "an object": ({"docs": {"command": "x", "env": {"KEY": PRIVATE}}}, "the whole value"),
    "a text": (json.dumps(PRIVATE), "the whole value"),
    "a list of texts": ([PRIVATE], '"0"'),
    "half a list": (f'[{{"env": {{"KEY": "{PRIVATE}"', "the whole value"),
    "no JSON": (PRIVATE, "the whole value"),
    "null": ("null", "the whole value"),
}


@pytest.mark.parametrize(("value", "expected"), BAD.values(), ids=BAD)
def test_a_column_that_cannot_be_used_stops_the_session_and_names_the_discipline(
    own: Path, value: object, expected: str
) -> None:
    stored(own, "backend", value)
    with pytest.raises(ProjectError) as caught:
        opened(own, "yap", discipline="backend")
    (problem,) = caught.value.problems

    assert 'discipline "backend"' in problem.text
    assert expected in problem.text
    assert problem.hint
    assert PRIVATE not in str(caught.value)
    assert problem.text.isprintable()
    assert not (own / SESSIONS).exists()


@pytest.mark.parametrize("kind", shortened(BAD, "reserved", "a name of many lines", "half a list"))
def test_check_reports_an_unusable_column_with_its_discipline(own: Path, kind: str) -> None:
    value, expected = BAD[kind]
    stored(own, "backend", value)
    said: list[str] = []

    assert not checked(own, say=said.append).drift
    (line,) = said
    assert line.startswith('warning: discipline "backend"')
    assert expected in line
    assert line.endswith(": its sessions cannot start")
    assert PRIVATE not in line


def test_all_unusable_names_are_reported_at_once(own: Path) -> None:
    stored(own, "backend", [*odd(name="ralph"), *odd(name="a b"), *odd(name="search")])
    with pytest.raises(ProjectError) as caught:
        opened(own, "yap", discipline="backend")

    assert 3 == len(caught.value.problems)


def test_a_bad_column_of_another_persona_stops_no_session(own: Path) -> None:
    stored(own, "frontend", "no JSON")

    assert opened(own, "yap", discipline="backend").other_servers


def test_summary_and_launch_name_the_servers(project: Path) -> None:
    options = ["--task", "1", "--project", str(project)]
    told = ralphgen("session", "create", "task_execution", *options).stderr
    line = ralphgen("launch", "task_execution", "--dry-run", *options).stdout

    for name in ("docs", "Bare_2-x", "search"):
        assert f'discipline "backend" starts "{name}": ' in told
    assert " mcp__docs mcp__Bare_2-x mcp__search " in line


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
