"""`ralphgen launch`: what Claude Code is told, and how its stream is watched.

The program `claude` is a small real one here; tests/interop/test_claude_code.py has the real one.
"""

import io
import json
import os
import pty
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import pytest
from making_sessions import prepared

from ralphgen.errors import ProjectError, UsageError
from ralphgen.launch.agent import LONGEST_ARGUMENT, AgentCall, LaunchOptions, prints
from ralphgen.launch.claude.agent import ClaudeCode
from ralphgen.launch.claude.command import launch_command
from ralphgen.launch.outcome import outcome_of
from ralphgen.launch.runner import line_writer, run_printing, run_terminal
from ralphgen.project.config import LaunchConfig
from ralphgen.sessions.model import Brief, PreparedSession, Served

pytestmark = pytest.mark.slow

ARGV = ("claude", "-p")
TOOLS = ("get_task", "set_task_status")
SEEN = [f"mcp__ralph__{name}" for name in TOOLS]
START = {
    "type": "system",
    "subtype": "init",
    "model": "opus",
    "tools": ["Bash", *SEEN],
    "mcp_servers": [{"name": "ralph", "status": "connected"}],
}
RESULT = {
    "type": "result",
    "subtype": "success",
    "terminal_reason": "completed",
    "num_turns": 2,
    "duration_ms": 1234,
    "total_cost_usd": 0.0567,
}
REFUSAL = "the context is another one than at the start"
# Puts itself into a session of its own, as commands of Claude Code are, and is deaf to TERM.
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
print("deaf", flush=True)
time.sleep(600)
"""


def session_in(root: Path, profile: str = "task_execution", *others: str) -> PreparedSession:
    """A session whose one server refuses to start when it is asked."""
    said = f"sys.stderr.write('server.py: ' + {REFUSAL!r})"
    refusing = f"import sys; {said}; sys.exit('--check' in sys.argv)"
    command = (sys.executable, "-c", refusing)
    tools = tuple({"name": name} for name in TOOLS)
    served = Served(kit="ralph", command=command, tools=tools, instructions="", prompt="")
    return replace(prepared(root, profile), served=(served,), other_servers=others)


def lives(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to ask how it ended does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@dataclass
class Launch:
    """A folder with a program `claude`, and what came of running it."""

    root: Path
    out: TextIO = field(default_factory=io.StringIO)
    said: list[str] = field(default_factory=list)
    session: PreparedSession | None = None

    def program(self, body: str, *events: object) -> None:
        """Let `claude` write the events, then run `body`."""
        lines = "".join(
            event if isinstance(event, str) else json.dumps(event) + "\n" for event in events
        )
        path = self.root / "claude"
        path.write_text(
            f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n"
            "open('pid', 'w').write(str(os.getpid()))\n"
            f"sys.stdout.write({lines!r})\nsys.stdout.flush()\n{body}\n",
            encoding="utf-8",
        )
        path.chmod(0o755)

    def run(
        self,
        *,
        timeout: float = 20,
        raw: bool = False,
        prompt: str = "go",
        say: Callable[[str], None] | None = None,
    ) -> int:
        """The exit code of a session that has no task to close."""
        session = self.session or session_in(self.root)
        out = line_writer(self.out, raw=raw)
        told = say or self.said.append
        call = AgentCall(ARGV, prompt)
        end = run_printing(session, ClaudeCode(), call, timeout=timeout, out=out, say=told)
        return outcome_of(end, None, closes=False).exit_code

    @property
    def lines(self) -> list[str]:
        """What was written for the person."""
        assert isinstance(self.out, io.StringIO)
        return self.out.getvalue().splitlines()


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """A folder of its own at the front of PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return Launch(tmp_path)


def says(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def command(profile: str = "task_execution", **options: Any) -> tuple[str, ...]:
    given = {"prompt": "go", "printing": True, **options}
    return launch_command(session_in(Path("/p"), profile), LaunchOptions(**given))


def test_a_session_that_prints_is_told_its_servers_its_tools_and_what_it_must_not_touch() -> None:
    expected = (
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--allowedTools", "mcp__ralph__get_task", "mcp__ralph__set_task_status"),
        *("--disallowedTools", "Edit(.ralph)", "Edit(.ralph/mcp/**)", "Edit(.ralph/db/**)"),
        *("Edit(.ralph/recipes/**)", "Edit(.ralph/prompts/**)", "Edit(.ralph/specum/**)"),
        *("Edit(.ralph/queries/**)", "Edit(.ralph/tools/**)", "Edit(.ralph/plugin/**)"),
        "Edit(.ralph/ralphgen.toml)",
        *("--mcp-config", "/p/mcp.json", "--strict-mcp-config"),
        *("--permission-mode", "acceptEdits"),
    )

    assert expected == command()


def test_in_another_work_tree_the_projects_own_folder_is_denied_by_its_whole_path() -> None:
    session = replace(session_in(Path("/p")), work_tree=Path("/p/.ralph/worktrees/1"))
    found = launch_command(session, LaunchOptions(prompt="go", printing=True))

    assert {"Edit(.ralph/mcp/**)", "Edit(//p/.ralph/mcp/**)"} <= {*found}
    assert {"Edit(.ralph/ralphgen.toml)", "Edit(//p/.ralph/ralphgen.toml)"} <= {*found}
    assert "Edit(//p/.ralph)" not in found  # which holds the work tree


def test_a_conversation_gets_its_prompt_last_whatever_it_begins_with() -> None:
    found = command("ramble", prompt="--help me", printing=False, passed_through=("--add-dir", "x"))

    assert ("--strict-mcp-config", "--add-dir", "x", "--", "--help me") == found[-5:]
    assert "-p" not in found
    assert "--permission-mode" not in found


def test_a_conversation_without_a_prompt_just_opens() -> None:
    assert "--strict-mcp-config" == command("manual", prompt="", printing=False)[-1]


def test_what_is_passed_through_follows_our_options_so_that_it_counts() -> None:
    found = command(model="sonnet", max_turns=3, passed_through=("--model", "haiku"))

    assert ("--model", "sonnet", "--max-turns", "3", "--model", "haiku") == found[-6:]


def test_who_the_agent_is_stands_in_a_file_that_the_command_line_names() -> None:
    session = session_in(Path("/p"))
    (served,) = session.served
    served = replace(served, brief=Brief(system="SYSTEM", task="TASK", most=9, sections=()))
    found = launch_command(replace(session, served=(served,)), LaunchOptions("go", printing=True))

    at = found.index("--append-system-prompt-file")
    assert "/p/system.md" == found[at + 1]
    assert "SYSTEM" not in str(found)


@pytest.mark.parametrize(("asked", "expected"), [("", "haiku"), ("opus", "opus")])
def test_the_model_of_the_recipe_is_used_where_no_other_is_asked_for(
    asked: str, expected: str
) -> None:
    session = replace(session_in(Path("/p")), model="haiku")
    found = launch_command(session, LaunchOptions("go", printing=True, model=asked))

    assert ("--model", expected) == found[-2:]


def test_the_personas_servers_and_the_projects_rules_are_allowed_as_a_whole() -> None:
    session = session_in(Path("/p"), "opus_review", "git.hub two")
    settings = LaunchConfig(allow=["Bash(git *)"], permission_mode="plan")
    session = replace(session, launch=settings)
    found = launch_command(session, LaunchOptions("go", printing=True))

    assert ("mcp__git_hub_two", "Bash(git *)", "--disallowedTools") == found[8:11]
    assert ("--permission-mode", "plan") == found[-2:]


@pytest.mark.parametrize("name", ["--dangerously-skip-permissions", "-p"])
def test_no_name_of_the_project_becomes_an_option(name: str) -> None:
    session = session_in(Path("/p"), "ramble", name)
    found = launch_command(session, LaunchOptions(name, printing=False))

    assert f"mcp__{name}" in found
    assert ("--", name) == found[-2:]
    assert found.index("--") == found.index(name) - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": " \n"}, "needs a prompt"),
        ({"printing": False, "max_turns": 2}, '"--max-turns" is for'),
        ({"printing": False, "prompt": "a\0b"}, "NUL"),
        ({"printing": False, "prompt": "é" * LONGEST_ARGUMENT}, "200,000 bytes"),
    ],
)
def test_what_cannot_be_started_is_refused_in_a_sentence(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        command(**options)


def test_only_the_recipes_that_need_no_person_print() -> None:
    profiles = (
        *("braindump", "yap", "ramble", "discuss", "task_execution", "opus_review", "enrichment"),
        *("interactive", "manual"),
    )

    assert ["task_execution", "opus_review", "enrichment"] == [
        profile for profile in profiles if prints(profile)
    ]


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


def test_raw_passes_the_events_on_as_they_are(launch: Launch) -> None:
    lines = [json.dumps(START), '{ "type": "assistant",   "é": 1.50 }']
    launch.program("", "\n".join(lines))

    assert 0 == launch.run(raw=True)
    assert lines == launch.lines


def test_raw_stays_json_where_the_terminal_lacks_the_characters(launch: Launch) -> None:
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
            f'no connection to the MCP server "ralph" (failed): {REFUSAL}',
        ),
        ({**START, "mcp_servers": []}, '"ralph" (not listed)'),
        ({**START, "mcp_servers": None}, '"ralph" (not listed)'),
        (
            {**START, "tools": [SEEN[0]]},
            f'Claude Code has not got "set_task_status" of the MCP server "ralph": {REFUSAL}',
        ),
        ({**START, "tools": None}, 'not got "get_task", "set_task_status"'),
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
    assert launch.said[0].endswith("without a word on which servers and tools it had")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", ["Claude Code ended with exit code 3"]),
        ("os.kill(os.getpid(), signal.SIGSEGV)", ["Claude Code was ended by signal 11"]),
    ],
)
def test_an_agent_that_fails_has_a_code_of_its_own(
    launch: Launch, body: str, said: list[str]
) -> None:
    launch.program(body, START)

    assert 6 == launch.run()
    assert said == launch.said


def test_what_it_says_on_standard_error_is_passed_on(
    launch: Launch, capfd: pytest.CaptureFixture[str]
) -> None:
    launch.program("print('a complaint', file=sys.stderr)", START)

    assert 0 == launch.run()
    assert "a complaint\n" == capfd.readouterr().err


def test_an_early_failure_is_one_too(launch: Launch) -> None:
    launch.program("sys.exit(1)")

    assert 6 == launch.run()
    assert ["Claude Code ended with exit code 1"] == launch.said


def test_the_prompt_arrives_whole_however_long_it_is(launch: Launch) -> None:
    launch.program("sys.exit(sys.stdin.read() != 'é' * 1_000_000)", START)

    assert 0 == launch.run(prompt="é" * 1_000_000)


def test_lines_that_are_no_events_are_said_and_do_no_harm(launch: Launch) -> None:
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


def test_nothing_that_a_model_says_can_steer_the_terminal(launch: Launch) -> None:
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


def test_when_the_time_is_up_nothing_runs_any_more(launch: Launch) -> None:
    launch.program(
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open('child', 'w').write(str(child.pid))\nchild.wait()",
        START,
    )

    assert 7 == launch.run(timeout=2)
    assert ["the 2 s of this session are over: Claude Code was stopped"] == launch.said
    assert [False, False] == [
        lives(int((launch.root / name).read_text(encoding="utf-8"))) for name in ("pid", "child")
    ]


def test_processes_that_are_deaf_and_in_groups_of_their_own_are_killed(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.launch.process.GRACE", 0.3)
    launch.program(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {DEAF!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(os.getpid(), child.pid, flush=True)\ntime.sleep(600)",
        START,
    )

    def say(line: str) -> None:
        launch.said.append(line)
        signal.raise_signal(signal.SIGTERM)

    assert 143 == launch.run(say=say)
    _, parent, child = launch.said[0].split()
    assert [False, False] == [lives(int(parent)), lives(int(child))]


@pytest.mark.parametrize("cut_loose", [False, True])
def test_what_claude_code_leaves_behind_is_ended_with_it(
    launch: Launch, *, cut_loose: bool
) -> None:
    launch.program(
        f"child = subprocess.Popen(['sleep', '600'], start_new_session={cut_loose})\n"
        "print(f'child {child.pid}', flush=True)\nos._exit(0)",
        START,
    )

    assert 0 == launch.run()
    (line,) = launch.said
    assert not lives(int(line.split()[-1]))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_us_ends_claude_code_too(
    launch: Launch, number: signal.Signals, code: int
) -> None:
    launch.program("print(os.getpid(), flush=True)\ntime.sleep(600)", START)

    def say(line: str) -> None:
        launch.said.append(line)
        signal.raise_signal(number)

    kept = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by now
    try:
        assert code == launch.run(say=say)
    finally:
        signal.signal(signal.SIGINT, kept)
    (line,) = launch.said
    assert not lives(int(line.split()[-1]))
    assert signal.SIG_DFL == signal.getsignal(signal.SIGTERM)


def test_a_reader_that_leaves_ends_claude_code(launch: Launch) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    launch.out = Gone()
    launch.program("time.sleep(600)", START)

    with pytest.raises(BrokenPipeError):
        launch.run()


def test_without_claude_code_a_sentence_says_where_to_get_it(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(launch.root))

    with pytest.raises(ProjectError, match='no "claude" on PATH\nhint: install it'):
        launch.run()


def test_a_program_that_cannot_be_run_is_a_sentence(launch: Launch) -> None:
    (launch.root / "claude").write_text("#!/nowhere\n", encoding="utf-8")
    (launch.root / "claude").chmod(0o755)

    with pytest.raises(ProjectError, match='"claude" cannot be run: no such file'):
        launch.run()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The path of a terminal that takes the place of the person's."""
    master, slave = pty.openpty()
    path = os.ttyname(slave)
    monkeypatch.setattr("ralphgen.launch.runner.TERMINAL", path)
    yield path
    os.close(master)
    os.close(slave)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("sys.exit(0 if os.isatty(0) and sys.argv[1:] == ['--', 'go'] else 6)", 0),
        ("os.kill(os.getppid(), signal.SIGINT)\nsys.exit(0)", 0),
        ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)", 130),
        ("os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(600)", 143),
    ],
    ids=["a terminal", "Ctrl-C is not for us", "Ctrl-C ends it", "what ends us ends it"],
)
def test_a_conversation_has_the_terminal_to_itself(launch: Launch, body: str, code: int) -> None:
    launch.program(body)

    end = run_terminal(session_in(launch.root), ClaudeCode(), AgentCall(("claude", "--", "go")))

    assert code == outcome_of(end, None, closes=False).exit_code


def test_without_a_terminal_there_is_no_conversation(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.launch.runner.TERMINAL", str(launch.root / "none"))
    launch.program("")

    with pytest.raises(ProjectError, match="no terminal to talk in"):
        run_terminal(session_in(launch.root), ClaudeCode(), AgentCall(("claude",)))


def retry(status: int) -> dict[str, Any]:
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status}


def refused(status: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What Claude Code writes when it gives up."""
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


def test_a_share_of_the_money_is_an_option() -> None:
    found = command(max_cost=1.5)

    assert ("--max-budget-usd", "1.5000") == found[-2:]
