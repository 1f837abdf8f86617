"""How the stream of Claude Code is watched, shown and judged.

The program `claude` is a small real one here; tests/interop/test_claude_code.py has the real one.
"""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launches import REFUSAL, SEEN, START, Launch, launch_in, session_in

from ralphgen.agents.adapters import ClaudeCode
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow

RESULT = {
    "type": "result",
    "subtype": "success",
    "terminal_reason": "completed",
    "num_turns": 2,
    "duration_ms": 1234,
    "total_cost_usd": 0.0567,
}


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    return launch_in(tmp_path, monkeypatch)


def says(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def test_a_session_is_shown_line_by_line(launch: Launch) -> None:
    call = {
        "type": "tool_use",
        "id": "1",
        "name": "Write",
        "input": {"path": "a", "text": "x" * 99},
    }
    failed = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "no\n such"}
    fine = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "ok"}]}
    launch.program(
        "",
        START,
        {"type": "assistant", "message": {"content": [call]}},
        {"type": "user", "message": {"content": [failed, fine]}},
        {**says("in part"), "parent_tool_use_id": "9"},
        says("All\ndone."),
        RESULT,
    )

    assert 0 == launch.run()
    shown = "x" * 80
    assert [
        "session with opus: ralph connected",
        f'call Write path="a" text="{shown}…"',
        "failed Write: no such",
        "  in part",
        "All",
        "done.",
        "ended: completed, 2 turns, 1.2 s, $0.0567",
    ] == launch.lines


def test_raw_passes_the_events_on_unchanged(launch: Launch) -> None:
    lines = [json.dumps(START), '{ "type": "assistant",   "é": 1.50 }']
    launch.program("", "\n".join(lines))

    assert 0 == launch.run(raw=True)
    assert lines == launch.lines


def test_raw_output_is_json_on_a_limited_terminal(launch: Launch) -> None:
    launch.program("", START, '{"type": "new", "text": "\U0001f600"}\n')
    written = io.BytesIO()
    launch.out = io.TextIOWrapper(written, encoding="ascii")

    assert 0 == launch.run(raw=True)
    assert "\U0001f600" == json.loads(written.getvalue().splitlines()[-1])["text"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            {**START, "mcp_servers": [{"name": "ralph", "status": "failed"}]},
            f'not connected to the MCP server "ralph" (failed): {REFUSAL}',
        ),
        ({**START, "mcp_servers": []}, '"ralph" (not listed)'),
        ({**START, "mcp_servers": None}, '"ralph" (not listed)'),
        (
            {**START, "tools": [SEEN[0]]},
            f'Claude Code does not list "set_task_status" of the MCP server "ralph": {REFUSAL}',
        ),
        ({**START, "tools": None}, 'does not list "get_task", "set_task_status"'),
    ],
)
def test_a_session_that_lacks_something_is_stopped_at_its_first_event(
    launch: Launch, event: object, words: str
) -> None:
    launch.program("time.sleep(600)", event, says("too late"))
    with pytest.raises(ProjectError) as raised:
        launch.run()

    assert words in str(raised.value)
    assert [] == launch.lines


def test_claude_code_is_stopped_before_its_servers_are_asked(launch: Launch) -> None:
    launch.program("time.sleep(600)", {**START, "mcp_servers": []})
    asking = (
        "import os, sys\n"
        f"try: os.kill(int(open({str(launch.root / 'pid')!r}).read()), 0)\n"
        "except ProcessLookupError: sys.exit('it is gone')\n"
        "sys.exit('it still runs')"
    )
    session = session_in(launch.root)
    (served,) = session.served
    command = (sys.executable, "-c", asking)
    launch.session = replace(session, served=(replace(served, command=command),))

    with pytest.raises(ProjectError, match="it is gone"):
        launch.run()


def test_a_server_of_the_persona_has_to_be_there_too(launch: Launch) -> None:
    launch.session = session_in(launch.root, "task_execution", "github")
    error = {"name": "github", "type": "invalid_config", "message": "Skipped: no command"}
    launch.program("time.sleep(600)", {**START, "mcp_server_errors": [error]})
    with pytest.raises(ProjectError) as raised:
        launch.run()

    assert '"github" (not listed): Skipped: no command' in str(raised.value)
    assert "ralph" not in str(raised.value).splitlines()[0]


def test_a_stream_without_a_first_event_proves_nothing(launch: Launch) -> None:
    launch.program("", says("hello"))

    assert 6 == launch.run()
    assert ["hello"] == launch.lines
    assert launch.said[0].endswith("without listing its servers and tools")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", ["Claude Code ended with exit code 3"]),
        ("os.kill(os.getpid(), signal.SIGSEGV)", ["Claude Code was ended by signal 11"]),
    ],
)
def test_a_failing_agent_has_its_own_exit_code(launch: Launch, body: str, said: list[str]) -> None:
    launch.program(body, START)

    assert 6 == launch.run()
    assert said == launch.said


def test_standard_error_is_passed_on(launch: Launch) -> None:
    launch.program("print('a complaint', file=sys.stderr)", START)

    assert 0 == launch.run()
    assert ["a complaint"] == launch.said


def test_the_prompt_arrives_whole_however_long_it_is(launch: Launch) -> None:
    launch.program("sys.exit(sys.stdin.read() != 'é' * 1_000_000)", START)

    assert 0 == launch.run(prompt="é" * 1_000_000)


def test_other_lines_are_printed_and_harmless(launch: Launch) -> None:
    launch.program(
        "os.write(1, b'\\xff\\xfe\\n' + b'{\"half\": ')",
        START,
        "a warning\n",
        "[1]\n\n",
        "[" * 100_000 + "\n",
        {"type": "of tomorrow"},
        {"type": "assistant", "message": "text"},
        {"type": "assistant", "message": {"content": [1, {"type": "tool_use"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "is_error": True}]}},
        {"type": "result"},
        says("x" * 3_000_000),
    )

    assert 0 == launch.run()
    expected = ["session with opus: ralph connected", "ended: no reason", "x" * 3_000_000]
    assert expected == launch.lines
    assert ["claude: a warning", "claude: [1]", "claude: \ufffd\ufffd", 'claude: {"half": '] == [
        line for line in launch.said if "[[" not in line
    ]


def test_output_of_a_model_cannot_control_the_terminal(launch: Launch) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \r \u202e \ud800 \x7f tab\tkept"
    call = {"type": "tool_use", "id": "1", "name": f"x{evil}", "input": {evil: evil}}
    failed = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": evil}
    launch.program(
        "",
        {**START, "model": evil},
        says(evil),
        {"type": "assistant", "message": {"content": [call]}},
        {"type": "user", "message": {"content": [failed]}},
        {**RESULT, "terminal_reason": evil},
        f"{evil.replace(chr(0xD800), '')}\n",
    )

    assert 0 == launch.run()
    everything = "".join([*launch.lines, *launch.said])
    assert set() == {one for one in everything if one != "\t" and not one.isprintable()}
    assert r"\x1b]0;owned\x07 \x9b31m \r \u202e \ud800 \x7f tab	kept" == launch.lines[1]


def test_without_claude_code_a_sentence_names_its_source(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(launch.root))

    with pytest.raises(
        ProjectError, match=r'is not installed \("claude" is not on PATH\)\nhint: install it'
    ):
        launch.run()


def test_a_program_that_cannot_be_run_is_a_sentence(launch: Launch) -> None:
    (launch.root / "claude").write_text("#!/nowhere\n", encoding="utf-8")
    (launch.root / "claude").chmod(0o755)

    with pytest.raises(ProjectError, match='"claude" cannot be run: no such file'):
        launch.run()


def retry(status: int) -> dict[str, Any]:
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status}


def refused(status: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the output of Claude Code when it gives up."""
    said = {**says("API Error"), "error": "server_error", "api_error_status": status}
    return said, {**RESULT, "is_error": True, "api_error_status": status}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([retry(429), *refused(429)], True),
        ([retry(529), *refused(529)], True),
        ([retry(429)], True),
        ([retry(429), says("it goes on")], False),
        ([retry(500), *refused(500)], False),
        ([retry(429), says("it goes on"), RESULT], False),
    ],
)
def test_a_model_that_does_not_answer_for_now_is_known(
    events: list[object], *, expected: bool
) -> None:
    reader = ClaudeCode().reader(session_in(Path("/p")))
    for event in (START, *events):
        reader.take(json.dumps(event))

    assert expected == reader.rate_limited
