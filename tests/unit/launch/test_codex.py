"""Codex as an agent; its real program is in tests/interop/test_other_agents.py."""

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making_sessions import prepared

from ralphgen.agents.adapters import Codex, CodexReader
from ralphgen.agents.agent import AgentLine, LaunchOptions, Usage
from ralphgen.errors import ProjectError, UsageError
from ralphgen.runtime.files.main_tree import CLIENT_FILES, CLIENT_FOLDERS
from ralphgen.sessions.model import Brief, PreparedSession, Served

pytestmark = pytest.mark.slow

HIDDEN = "s3cr3t"
SERVERS = {
    "ralph": {"command": "python", "args": ["server.py", 'a "b"'], "timeout": 660_000},
    "browser": {"command": "browse", "args": [], "env": {"TOKEN": "${CODEX_TEST_TOKEN}"}},
    "far": {
        "type": "http",
        "url": "https://x.example/${CODEX_TEST_PATH:-mcp}",
        "headers": {"Authorization": "Bearer ${CODEX_TEST_TOKEN}"},
    },
}
BEGUN = {"type": "thread.started", "thread_id": "1"}
CALL = {"type": "mcp_tool_call", "server": "ralph", "tool": "get_task", "arguments": {"id": 7}}
SHELL = {"type": "command_execution", "command": "npm test", "aggregated_output": "red"}
BUSY = "exceeded retry limit, last status: 429 Too Many Requests"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedSession:
    """A session with servers of all kinds, and a Codex whose settings have two servers."""
    monkeypatch.setenv("CODEX_TEST_TOKEN", HIDDEN)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    listing = json.dumps([{"name": "ralph"}, {"name": "own"}])
    program(tmp_path, f"print({listing!r})")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    brief = Brief(system="WHO", task="WHAT", most=9, sections=())
    served = Served(
        "ralph", (sys.executable, "-c", "raise SystemExit('server.py: no')"), (), "", ""
    )
    served = replace(served, tools=({"name": "get_task"},), brief=brief)
    return replace(prepared(tmp_path), served=(served,), other_servers=("browser", "far"))


def program(folder: Path, body: str) -> None:
    path = folder / "codex"
    path.write_text(f"#!{sys.executable}\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def settings(argv: tuple[str, ...]) -> dict[str, Any]:
    """Return the combined settings of the options -c."""
    found: dict[str, Any] = {}
    for line in (argv[at + 1] for at, word in enumerate(argv) if word == "-c"):
        for table, values in tomllib.loads(line).items():
            found.setdefault(table, {})
            found[table] = {**found[table], **values} if isinstance(values, dict) else values
    return found


def test_codex_gets_only_the_servers_of_the_session(session: PreparedSession) -> None:
    call = Codex().call(session, LaunchOptions("go", printing=True, model="m"))
    servers = settings(call.argv)["mcp_servers"]

    assert ("codex", "exec", "--json", "--skip-git-repo-check") == call.argv[:4]
    assert ("--model", "m", "--", "-") == call.argv[-4:]
    assert {
        "required": True,
        "default_tools_approval_mode": "approve",
        "command": "python",
        "args": ["server.py", 'a "b"', "--structured-output"],
        "enabled_tools": ["get_task"],
        "tool_timeout_sec": 660,
    } == servers["ralph"]
    assert {"enabled": False} == servers["own"]
    assert "https://x.example/mcp" == servers["far"]["url"]
    assert ["ralph", "browser", "far", "own"] == list(servers)


def test_no_secret_is_on_its_command_line(session: PreparedSession) -> None:
    call = Codex().call(session, LaunchOptions("go", printing=True))
    headers = settings(call.argv)["mcp_servers"]["far"]["env_http_headers"]

    assert HIDDEN not in str(call.argv)
    assert f"Bearer {HIDDEN}" == call.variables[headers["Authorization"]]


def test_a_server_of_a_discipline_gets_the_variables_of_its_entry(
    session: PreparedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = session.folder / "browse"
    browser.write_text(f"#!{sys.executable}\nimport os\nprint(os.environ['TOKEN'])\n", "utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    call = Codex().call(session, LaunchOptions("go", printing=True))
    entry = settings(call.argv)["mcp_servers"]["browser"]
    done = subprocess.run(
        [entry["command"], *entry["args"]], capture_output=True, text=True, check=True
    )

    assert HIDDEN == done.stdout.strip()


def test_the_dsn_is_passed_to_servers_and_not_to_commands_of_the_agent(
    session: PreparedSession,
) -> None:
    folder = session.root / ".ralph"
    folder.mkdir(exist_ok=True)
    (folder / "ralphgen.toml").write_text(
        '[database]\nengine = "postgresql"\ndsn_env = "SHOP"\n', encoding="utf-8"
    )
    found = settings(Codex().call(session, LaunchOptions("go", printing=True)).argv)

    assert {"exclude": ["SHOP"]} == found["shell_environment_policy"]
    assert ["SHOP"] == found["mcp_servers"]["ralph"]["env_vars"]
    assert "env_vars" not in found["mcp_servers"]["browser"]


def test_the_role_is_before_the_prompt(session: PreparedSession) -> None:
    call = Codex().call(session, LaunchOptions("go", printing=True))

    assert "WHO\n\ngo" == call.given
    assert "WHO" not in str(call.argv)


@pytest.mark.parametrize(
    ("profile", "base"), [("task_execution", ":workspace"), ("opus_review", ":read-only")]
)
def test_commands_cannot_change_the_servers_files(
    session: PreparedSession, profile: str, base: str
) -> None:
    session = replace(session, profile=profile)
    found = settings(Codex().call(session, LaunchOptions("go", printing=True)).argv)

    assert "ralphgen" == found["default_permissions"]
    kept = [".ralph", ".git", *sorted(CLIENT_FOLDERS), *sorted(CLIENT_FILES)]
    rules = {":workspace_roots": dict.fromkeys(kept, "read")}
    assert {"extends": base, "filesystem": rules} == found["permissions"]["ralphgen"]


def test_a_conversation_has_its_prompt_behind_all_options(session: PreparedSession) -> None:
    options = LaunchOptions("--yolo", printing=False, passed_through=("--search",))
    found = Codex().call(session, options).argv

    assert ("codex", "-c") == found[:2]
    assert ("--search", "--", "WHO\n\n--yolo") == found[-3:]


def test_unsupported_options_are_refused(session: PreparedSession) -> None:
    with pytest.raises(UsageError, match='does not support "--max-turns"'):
        Codex().call(session, LaunchOptions("go", printing=True, max_turns=3))
    program(session.root, "print('nothing')")
    with pytest.raises(UsageError, match="does not list the MCP servers"):
        Codex().call(session, LaunchOptions("go", printing=True))


def read_events(session: PreparedSession, *events: object) -> tuple[CodexReader, list[AgentLine]]:
    reader = CodexReader(session)
    lines = [reader.take(json.dumps(event)) for event in events]
    return reader, [line for line in lines if line is not None]


@pytest.mark.parametrize(
    ("event", "texts", "tool"),
    [
        (BEGUN, ("session with Codex",), ""),
        ({"type": "item.started", "item": CALL}, ("call mcp__ralph__get_task id=7",),
         "mcp__ralph__get_task"),
        ({"type": "item.completed", "item": CALL}, (), ""),
        (
            {"type": "item.completed", "item": {
                **CALL, "status": "failed", "result": {"content": [{"type": "text", "text": "no"}]}
            }},
            ("failed mcp__ralph__get_task: no",), "",
        ),
        (
            {"type": "item.completed", "item": {
                **CALL, "status": "failed", "error": {"message": "gone"}
            }},
            ("failed mcp__ralph__get_task: gone",), "",
        ),
        ({"type": "item.started", "item": SHELL}, ('call shell command="npm test"',), "shell"),
        (
            {"type": "item.completed", "item": {**SHELL, "exit_code": 1, "status": "failed"}},
            ("failed shell: exit code 1: red",), "",
        ),
        (
            {"type": "item.completed", "item": {"type": "agent_message", "text": "a\nb \x1b[31m"}},
            ("a", r"b \x1b[31m"), "",
        ),
        (
            {"type": "item.completed", "item": {
                "type": "file_change", "changes": [{"path": "a.py", "kind": "add"}]
            }},
            ('call edit paths="a.py"',), "",
        ),
        ({"type": "of tomorrow", "item": 7}, (), ""),
        ({"type": "item.completed", "item": {"type": "error", "message": "x"}}, ("failed: x",), ""),
    ],
)  # fmt: skip
def test_its_events_are_shown(
    session: PreparedSession, event: object, texts: tuple[str, ...], tool: str
) -> None:
    _, (line,) = read_events(session, event)

    assert (json.dumps(event), texts, tool) == (line.record, line.texts, line.tool)


def test_its_tokens_are_counted_and_its_failures_known(session: PreparedSession) -> None:
    usage = {"input_tokens": 200, "cached_input_tokens": 80, "output_tokens": 20}
    reader, _ = read_events(session, BEGUN, {"type": "turn.completed", "usage": usage})
    failed, _ = read_events(session, BEGUN, {"type": "turn.failed", "error": {"message": "bad"}})

    assert (True, False, Usage(tokens_in=200, tokens_out=20)) == (
        *(reader.started, reader.is_error),
        reader.usage,
    )
    assert (True, False) == (failed.is_error, failed.rate_limited)
    assert CodexReader(session).take("no event") is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (BUSY, True),
        ("unexpected status 503 Service Unavailable: x, url: http://x", True),
        ("You've hit your usage limit. Try again later.", True),
        ("Selected model is at capacity. Please try a different model.", True),
        ("unexpected status 401 Unauthorized", False),
    ],
)
def test_a_model_that_does_not_answer_for_now_is_known(
    session: PreparedSession, message: str, *, expected: bool
) -> None:
    error = {"type": "error", "message": message}
    reader, _ = read_events(
        session, BEGUN, error, {"type": "turn.failed", "error": {"message": message}}
    )
    again, _ = read_events(session, BEGUN, error, {"type": "item.completed", "item": CALL})

    assert expected == reader.rate_limited
    assert not again.rate_limited


def test_a_server_that_does_not_start_is_named_with_its_own_words(session: PreparedSession) -> None:
    reader = CodexReader(session)
    reader.close(1, "required MCP servers failed to initialize: ralph: handshaking failed")
    assert reader.refusal is not None
    other = CodexReader(session)
    other.close(1, "no such option")

    error = reader.refusal()
    assert isinstance(error, ProjectError)
    assert 'Codex is not connected to the MCP server "ralph": no' in str(error)
    assert other.refusal is None
