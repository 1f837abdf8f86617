"""Programs of the settings as agents, and agents that run on a thread of a larger program."""

import json
import os
import shutil
import stat
import sys
import threading
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue

import pytest
from command_line import ralphgen, ran
from driving import create_project, made_here, query
from making_sessions import opened

from ralphgen.agents.adapters import find_agent
from ralphgen.agents.agent import Agent, AgentLine, LaunchOptions
from ralphgen.agents.launch import SessionEnd, launch_session
from ralphgen.errors import UsageError
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import AgentSettings, Config, LoopConfig
from ralphgen.sessions.create import project_items
from ralphgen.sessions.model import PreparedSession

pytestmark = pytest.mark.slow

PLACES = ("{config}", "--prompt={prompt_file}", "{system_file}")
TOLD = """
config, prompt, system = sys.argv[1:]
prompt = prompt.removeprefix("--prompt=")
facts = {
    "servers": [*json.load(open(config))["mcpServers"]],
    "prompt": open(prompt).read(),
    "system": "discipline" in open(system).read().lower(),
    "mine": [oct(os.stat(path).st_mode & 0o777) for path in (prompt, system)],
    "session": os.environ["RALPHGEN_SESSION"],
    "folder": os.getcwd(),
    "keys": [name for name in os.environ if name.startswith("RALPH_")],
}
print(json.dumps(facts))
"""
USED = 'print(json.dumps({"turns": 4, "cost_usd": 0.5, "input_tokens": 10, "output_tokens": 2}))\n'
WAITS = "print('here', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("named") / "p")
    ran("db", "ledger", "on", "--yes", "--quiet", cwd=root)
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(model, tmp_path / "p"))


def command(root: Path, body: str, *arguments: str) -> list[str]:
    """The command of a program that runs `body`."""
    script = root.parent / "agent.py"
    script.write_text(f"import json, os, sys, time\n{body}", encoding="utf-8")
    return [sys.executable, str(script), *arguments]


def agent(root: Path, body: str, *arguments: str, reports_cost: bool = False) -> Agent:
    """The agent "mine" of a config."""
    settings = AgentSettings(command=command(root, body, *arguments), reports_cost=reports_cost)
    return find_agent("mine", Config(loop=LoopConfig(agents={"mine": settings})))


@dataclass
class Launched:
    """A session on task 1 that runs on a separate thread, with its result."""

    session: PreparedSession
    agent: Agent
    stop: threading.Event = field(default_factory=threading.Event)
    lines: "SimpleQueue[AgentLine]" = field(default_factory=SimpleQueue)
    said: list[str] = field(default_factory=list)
    end: SessionEnd | None = None

    def run(self) -> SessionEnd:
        """The end of a session."""
        options = LaunchOptions(self.session.prompt, printing=True)
        self.end = launch_session(
            self.session,
            self.agent,
            options,
            timeout=60,
            out=self.lines.put,
            say=self.said.append,
            stop=self.stop,
        )
        return self.end


def launched(root: Path, body: str, *arguments: str) -> Launched:
    return Launched(opened(root, "task_execution", task=1), agent(root, body, *arguments))


TELLS = """
secret = os.environ["DB_PASS"]
print(json.dumps({"type": "text", "text": secret, "quoted": '"' + secret}))
print("plain", secret)
print("wrong", secret, file=sys.stderr)
"""


def test_its_output_never_holds_secrets_of_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASS", 'hunter2": "x')
    launch = launched(root, TELLS)
    launch.run()
    lines = [launch.lines.get() for _ in range(2)]
    transcript = (launch.session.folder / "transcript.jsonl").read_text(encoding="utf-8")

    assert {"type": "text", "text": "***", "quoted": '"***'} == json.loads(lines[0].record)
    assert ("plain ***",) == lines[1].texts
    assert any(line.endswith("wrong ***") for line in launch.said)
    assert "hunter2" not in transcript + str([line.texts for line in lines]) + str(launch.said)


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"])
def test_known_agents_name_the_variables_with_their_keys(name: str) -> None:
    config = Config()
    patterns = [find_agent(one, config).variables for one in ("claude", "codex", "gemini")]

    assert 1 == sum(any(fnmatch(name, one) for one in own) for own in patterns)


def test_it_gets_the_paths_of_its_session_in_the_places_of_its_arguments(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN"):
        monkeypatch.setenv(name, "not for agents")
    launch = launched(root, TOLD, *PLACES)
    launch.run()
    told = json.loads(launch.lines.get().record)

    assert {
        "servers": ["ralph"],
        "prompt": f"{launch.session.prompt}\n",
        "system": True,
        "mine": ["0o600", "0o600"],
        "session": launch.session.session_id,
        "folder": str(root),
        "keys": [],
    } == told


def test_without_a_placeholder_the_system_part_is_before_the_prompt(root: Path) -> None:
    launch = launched(root, "print(open(sys.argv[1]).read())", "{prompt_file}")
    brief = launch.session.brief
    assert brief is not None
    launch.run()
    texts = [launch.lines.get().texts[0] for _ in range(launch.lines.qsize())]

    assert f"{brief.system}\n\n{brief.task}\n\n".splitlines() == texts


def test_places_are_replaced_once_and_other_braces_remain(root: Path) -> None:
    words = ("{config}{config}", "{prompt}", "a{b}", "$HOME", "*")
    launch = launched(root, "print(json.dumps({'words': sys.argv[1:]}))", *words)
    launch.run()
    config = str(launch.session.mcp_config)

    assert [config * 2, *words[1:]] == json.loads(launch.lines.get().record)["words"]


@pytest.mark.parametrize(
    ("body", "used"),
    [
        (f"print('working')\n{USED}", (4, 10, 2, 0.5)),
        (f"{USED}print()\n", (4, 10, 2, 0.5)),
        (f"{USED}print('more')\n", (None, None, None, None)),
        ('print(json.dumps({"turns": "4", "cost_usd": True}))', (None, None, None, None)),
        ("print('{\"cost_usd\": 1')", (None, None, None, None)),
        ('print(\'{"turns": -1, "cost_usd": -5}\')', (None, None, None, None)),
        ("print('{\"turns\": 1' + '0' * 400 + ', \"cost_usd\": NaN}')", (None, None, None, None)),
        ("print('{\"cost_usd\": 1' + '0' * 400 + '}')", (None, None, None, None)),
        ("print('{\"cost_usd\": Infinity}')", (None, None, None, None)),
    ],
)
def test_the_last_line_reports_usage(root: Path, body: str, used: tuple[object, ...]) -> None:
    launched(root, body).run()
    row = "turns, input_tokens, output_tokens, cost_usd, agent"

    assert [(*used, "mine")] == query(root, f"SELECT {row} FROM ralphgen_sessions")


@pytest.mark.parametrize(
    ("body", "word", "code"),
    [
        ("sys.exit(0)", "open", 5),
        ("sys.exit(3)", "failed", 6),
        ("os.abort()", "failed", 6),
        ("sys.exit(75)", "rate limited", 6),
    ],
)
def test_the_exit_code_gives_the_outcome(root: Path, body: str, word: str, code: int) -> None:
    outcome = launched(root, body).run().outcome

    assert (word, code) == (outcome.word, outcome.exit_code)


def test_any_output_is_kept_as_json(root: Path) -> None:
    launch = launched(root, "print('half \\x1b[31m')\nprint('{\"a\": 1}')")
    launch.run()
    path = launch.session.folder / "transcript.jsonl"
    kept = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    assert [{"type": "text", "text": "half \x1b[31m"}, {"a": 1}] == kept
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert (r"half \x1b[31m",) == launch.lines.get().texts


def test_an_agent_on_a_thread_ends_on_request(root: Path) -> None:
    launch = launched(root, f"print(os.getpid(), file=sys.stderr)\n{WAITS}")
    thread = threading.Thread(target=launch.run)
    thread.start()
    assert ("here",) == launch.lines.get(timeout=60).texts
    launch.stop.set()
    thread.join(60)

    assert launch.end is not None
    assert "stopped" == launch.end.outcome.word
    (said,) = launch.said
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.removeprefix("mine: ")), 0)


def test_standard_error_is_printed_by_lines_to_its_end(root: Path) -> None:
    launch = launched(root, "sys.stderr.write('one\\ntwo \\x1b')")
    launch.run()

    assert ["mine: one", r"mine: two \x1b"] == launch.said


def test_a_session_that_is_stopped_before_it_begins_runs_no_turn(root: Path) -> None:
    launch = launched(root, WAITS)
    launch.stop.set()

    assert "stopped" == launch.run().outcome.word


def test_an_unknown_name_is_refused_with_the_nearest(root: Path) -> None:
    with pytest.raises(UsageError, match='did you mean "claude"'):
        find_agent("cloude", Config())
    done = ralphgen("launch", "task_execution", "--task", "1", "--agent", "minne", cwd=root)

    assert 2 == done.returncode
    assert 'there is no agent "minne"' in done.stderr


@pytest.mark.parametrize("option", [("--model", "x"), ("--max-turns", "3")])
def test_unsupported_options_are_refused(root: Path, option: tuple[str, str]) -> None:
    configured(root, command(root, ""))
    done = started(root, *option)

    assert 2 == done[0]
    assert f'does not support "{option[0]}"' in done[1]
    assert not [*(root / ".ralph/mcp/sessions").iterdir()]


def test_launch_starts_the_agent_and_reports_its_limits_once(root: Path) -> None:
    done = "agent.call('set_task_status', status='done')"
    support = str(Path(__file__).parents[2] / "support")
    body = f"sys.path.insert(0, {support!r})\nfrom scripted_agent import Agent\n"
    configured(
        root, command(root, f"{body}agent = Agent(sys.argv)\n{done}", "--mcp-config", "{config}")
    )
    code, said = started(root)

    assert 0 == code, said
    assert "task 1 is done: done" in said
    note = 'note: agent "mine" gets no prompt; it needs "ralphgen call", missing in a sandbox'
    assert 1 == said.count(note)


def test_a_dry_run_prints_its_command_with_the_files_of_the_session(root: Path) -> None:
    configured(root, command(root, "", *PLACES))
    done = ralphgen(
        "launch", "task_execution", "--task", "1", "--agent", "mine", "--dry-run", cwd=root
    )
    _, _, config, prompt, system = done.stdout.split()

    assert [True] * 3 == [
        Path(path.removeprefix("--prompt=")).is_file() for path in (config, prompt, system)
    ]


def test_without_its_program_nothing_is_created(root: Path) -> None:
    configured(root, ["no-such-agent"])
    sessions = root / ".ralph/mcp/sessions"
    code, said = started(root)

    assert 1 == code
    assert said.startswith('error: the agent "mine" is not installed'), said
    assert not sessions.exists() or [] == [*sessions.iterdir()]
    assert [] == query(root, "SELECT * FROM ralphgen_claims")


def configured(root: Path, words: list[str]) -> None:
    """Give the project the agent "mine", and trust it."""
    path = root / ".ralph/ralphgen.toml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{text}\n[loop.agents.mine]\ncommand = {json.dumps(words)}\n", "utf-8")
    add_to_record(root, [item.digest for item in project_items(root)])


def started(root: Path, *options: str) -> tuple[int, str]:
    """Return the exit code of `launch --agent mine` on task 1, and its messages."""
    given = ("--task", "1", "--agent", "mine", *options)
    done = ralphgen("launch", "task_execution", *given, cwd=root)
    return done.returncode, done.stderr
