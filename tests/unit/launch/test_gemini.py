"""Gemini CLI as an agent; its real program is in tests/interop/test_other_agents.py."""

import json
import re
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making_sessions import prepared

from ralphgen.agents.adapters import GeminiCli, GeminiReader
from ralphgen.agents.agent import AgentLine, LaunchOptions, Usage
from ralphgen.errors import ProjectError
from ralphgen.sessions.model import Brief, PreparedSession, Served

SERVERS = {
    "ralph": {"command": "python", "args": ["server.py"], "timeout": 660_000},
    "browser": {"command": "browse", "args": [], "env": {"TOKEN": "s3cr3t"}},
}
BEGUN = {"type": "init", "session_id": "1", "model": "auto"}
BUSY = "Attempt 4 failed with status 429. Retrying with backoff..."


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedSession:
    """A session with two servers, for a user who has logged in."""
    person = tmp_path / "home" / ".gemini"
    person.mkdir(parents=True)
    (person / "oauth_creds.json").write_text("{}", encoding="utf-8")
    theirs = {"ui": {"theme": "x"}, "mcpServers": {"own": {"command": "own"}}}
    (person / "settings.json").write_text(json.dumps(theirs), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    brief = Brief(system="WHO", task="WHAT", most=9, sections=())
    served = Served("ralph", ("none",), ({"name": "get_task"},), "", "", brief)
    made = replace(prepared(tmp_path), folder=folder, mcp_config=folder / "mcp.json")
    return replace(made, served=(served,), other_servers=("browser",))


def settings(session: PreparedSession, **options: Any) -> dict[str, Any]:
    """Return its settings file."""
    call = GeminiCli().call(session, LaunchOptions("go", printing=True, **options))
    path = Path(call.variables["GEMINI_CLI_HOME"]) / ".gemini/settings.json"
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_codex_gets_only_the_servers_of_the_session(session: PreparedSession) -> None:
    found = settings(session)

    assert {
        "command": "python",
        "args": ["server.py"],
        "timeout": 660_000,
        "includeTools": ["get_task"],
        "trust": True,
    } == found["mcpServers"]["ralph-session"]
    assert ["ralph-session", "browser-session"] == found["mcp"]["allowed"]
    assert ["ralph-session", "browser-session"] == list(found["mcpServers"])
    assert {"theme": "x"} == found["ui"]


def test_the_variable_of_the_dsn_is_passed_on_to_the_servers(session: PreparedSession) -> None:
    folder = session.root / ".ralph"
    folder.mkdir(exist_ok=True)
    (folder / "ralphgen.toml").write_text(
        '[database]\nengine = "postgresql"\ndsn_env = "SHOP"\n', encoding="utf-8"
    )
    servers = settings(session)["mcpServers"]

    assert {"SHOP": "$SHOP"} == servers["ralph-session"]["env"]
    assert "env" not in servers["browser-session"]


def test_its_home_is_of_the_session_and_lets_it_log_in(session: PreparedSession) -> None:
    call = GeminiCli().call(session, LaunchOptions("go", printing=True))
    home = session.folder / "gemini/.gemini"
    person = Path(call.variables["GEMINI_CLI_TRUSTED_FOLDERS_PATH"]).parent

    assert str(home.parent) == call.variables["GEMINI_CLI_HOME"]
    assert person / "oauth_creds.json" == (home / "oauth_creds.json").readlink()
    assert 0o600 == stat.S_IMODE((home / "settings.json").stat().st_mode)
    assert "s3cr3t" not in (home / "settings.json").read_text(encoding="utf-8")
    assert ("gemini",) == GeminiCli().leftovers


def test_gemini_reads_its_prompt_and_edits_if_allowed(session: PreparedSession) -> None:
    call = GeminiCli().call(session, LaunchOptions("go", printing=True, model="m"))
    review = replace(session, profile="opus_review")
    other = GeminiCli().call(review, LaunchOptions("go", printing=True))

    assert "WHO\n\ngo" == call.given
    edits = ("--approval-mode", "auto_edit", "--model", "m", "--output-format", "stream-json")
    assert edits == call.argv[-6:]
    assert "--approval-mode" not in other.argv
    assert "--skip-trust" not in call.argv


def test_a_conversation_gets_its_prompt_as_an_option(session: PreparedSession) -> None:
    call = GeminiCli().call(session, LaunchOptions("go", printing=False))

    assert ("--prompt-interactive", "WHO\n\ngo") == call.argv[-2:]
    assert "" == call.given


def test_the_number_of_turns_is_in_the_settings(session: PreparedSession) -> None:
    assert {"maxSessionTurns": 3} == settings(session, max_turns=3)["model"]


def test_settings_that_cannot_be_read_are_no_reason_to_leave_them_out(
    session: PreparedSession,
) -> None:
    path = session.root / "home/.gemini/settings.json"
    path.write_text("{} // mine", encoding="utf-8")

    with pytest.raises(ProjectError, match="not a JSON object"):
        settings(session)


@pytest.mark.parametrize(
    ("path", "denied"),
    [
        (".ralph/ralphgen.toml", True),
        ("/p/.ralph/db/ralph.db", True),
        ("/p/.ralph/worktrees/1/src/a.py", False),
        ("/p/.ralph/worktrees/1/.ralph/mcp/server.py", True),
        ("src/a.py", False),
        (".git/config", True),
        (".git", True),
        ("/p/.GIT/hooks/pre-commit", True),
        ("/p/sub/.gIt./config", True),
        ("/p/.g\u200cit/config", True),
        ("/p/git~1/config", True),
        ("/p/.gitattributes", False),
        ("/p/.github/workflows/ci.yml", False),
        ("/p/x.git/config", False),
        ("/p/.gemini/settings.json", True),
        (".claude/settings.local.json", True),
        (".mcp.json", True),
        ("/p/.qwen/settings.json", True),
        ("/p/.github/hooks/a.json", True),
        ("sub/.vscode/tasks.json", True),
        (".aider.conf.yml", True),
        (".vscode/extensions.json", False),
        (".claude/skills/a/SKILL.md", False),
    ],
)
def test_edits_of_the_servers_files_are_denied(
    session: PreparedSession, path: str, *, denied: bool
) -> None:
    call = GeminiCli().call(session, LaunchOptions("go", printing=True))
    file = Path(call.argv[call.argv.index("--policy") + 1])
    rules = tomllib.loads(file.read_text(encoding="utf-8"))["rule"]
    given = {"file_path": path, "content": "x = '.ralph/'"}
    text = json.dumps(given, separators=(",", ":"), ensure_ascii=False)

    assert all(rule["toolName"] == ["write_file", "replace"] for rule in rules)
    assert denied == any(re.search(rule["argsPattern"], text) for rule in rules)


def read_events(*events: object) -> tuple[GeminiReader, list[AgentLine]]:
    reader = GeminiReader()
    lines = [reader.take(json.dumps(event)) for event in events]
    return reader, [line for line in lines if line is not None]


def test_its_events_are_shown() -> None:
    call = {"type": "tool_use", "tool_name": "t", "tool_id": "1", "parameters": {"a": 1}}
    failed = {"type": "tool_result", "tool_id": "1", "status": "error", "output": "no"}
    _, lines = read_events(
        BEGUN,
        {"type": "message", "role": "user", "content": "go"},
        {"type": "message", "role": "assistant", "content": "I lo", "delta": True},
        {"type": "message", "role": "assistant", "content": "ok.\nThen", "delta": True},
        call,
        failed,
        {"type": "error", "message": "x \x1b[31m"},
        {"type": "of tomorrow"},
        {"type": "result", "status": "success"},
    )

    assert [
        *("session with auto", "I look.", "Then", "call t a=1", "failed t: no"),
        *(r"failed: x \x1b[31m", "ended: success"),
    ] == [text for line in lines for text in line.texts]
    assert ["t"] == [line.tool for line in lines if line.tool]


def test_usage_is_counted() -> None:
    stats = {"input_tokens": 400, "output_tokens": 40, "models": {"gemini-x": {}}}
    reader, _ = read_events(BEGUN, {"type": "result", "status": "success", "stats": stats})

    assert (True, False, "gemini-x") == (reader.started, reader.is_error, reader.model)
    assert Usage(tokens_in=400, tokens_out=40) == reader.usage


@pytest.mark.parametrize(
    ("events", "code", "expected"),
    [
        ([BEGUN], None, True),
        ([BEGUN], 1, True),
        ([BEGUN, {"type": "tool_result", "status": "success"}], None, False),
        ([BEGUN], 0, False),
    ],
)
def test_a_model_that_does_not_answer_for_now_is_known(
    events: list[object], code: int | None, *, expected: bool
) -> None:
    reader, _ = read_events(*events)
    reader.close(code, BUSY)

    assert expected == reader.rate_limited


def test_its_exit_codes_are_known() -> None:
    reader, _ = read_events(BEGUN)
    reader.close(53, "")
    untrusted = GeminiReader()
    untrusted.close(55, "")

    assert reader.out_of_budget
    assert untrusted.refusal is not None
    assert "does not trust this directory" in str(untrusted.refusal())
