"""The command lines of Claude Code."""

import os
import pty
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launches import Launch, launch_in, session_in

from ralphgen.agents.adapters import CLAUDE_SETTINGS, ClaudeCode, launch_command
from ralphgen.agents.agent import LONGEST_ARGUMENT, AgentCall, LaunchOptions, outcome_of, prints
from ralphgen.agents.launch import run_terminal
from ralphgen.errors import ProjectError, UsageError
from ralphgen.project.config import LaunchConfig
from ralphgen.sessions.model import Brief

pytestmark = pytest.mark.slow


def command(profile: str = "task_execution", **options: Any) -> tuple[str, ...]:
    given = {"prompt": "go", "printing": True, **options}
    return launch_command(session_in(Path("/p"), profile), LaunchOptions(**given))


def test_a_printing_session_gets_servers_tools_and_denied_files() -> None:
    expected = (
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--allowedTools", "mcp__ralph__get_task", "mcp__ralph__set_task_status"),
        *("--disallowedTools", "Edit(.ralph)", "Edit(.ralph/mcp/**)", "Edit(.ralph/db/**)"),
        *("Edit(.ralph/recipes/**)", "Edit(.ralph/prompts/**)", "Edit(.ralph/specum/**)"),
        *("Edit(.ralph/queries/**)", "Edit(.ralph/tools/**)", "Edit(.ralph/plugin/**)"),
        "Edit(.ralph/ralphgen.toml)",
        *CLAUDE_SETTINGS,
        *("Edit(//**/.[gG][iI][tT])", "Edit(//**/.[gG][iI][tT]/**)"),
        *("--mcp-config", "/p/mcp.json", "--strict-mcp-config"),
        *("--permission-mode", "acceptEdits"),
    )

    assert expected == command()


def test_in_another_work_tree_the_projects_own_folder_is_denied_by_its_whole_path() -> None:
    session = replace(session_in(Path("/p")), work_tree=Path("/p/.ralph/worktrees/1"))
    found = launch_command(session, LaunchOptions(prompt="go", printing=True))

    assert {"Edit(.ralph/mcp/**)", "Edit(//p/.ralph/mcp/**)"} <= {*found}
    assert {"Edit(.ralph/ralphgen.toml)", "Edit(//p/.ralph/ralphgen.toml)"} <= {*found}
    assert "Edit(//p/.ralph)" not in found  # it holds the worktree


def test_a_conversation_gets_its_prompt_last() -> None:
    found = command("ramble", prompt="--help me", printing=False, passed_through=("--add-dir", "x"))

    assert ("--strict-mcp-config", "--add-dir", "x", "--", "--help me") == found[-5:]
    assert "-p" not in found
    assert "--permission-mode" not in found


def test_a_conversation_without_a_prompt_just_opens() -> None:
    assert "--strict-mcp-config" == command("manual", prompt="", printing=False)[-1]


def test_passed_options_follow_ours_and_override_them() -> None:
    found = command(model="sonnet", max_turns=3, passed_through=("--model", "haiku"))

    assert ("--model", "sonnet", "--max-turns", "3", "--model", "haiku") == found[-6:]


def test_the_role_of_the_agent_is_in_a_file_on_the_command_line() -> None:
    session = session_in(Path("/p"))
    (served,) = session.served
    served = replace(served, brief=Brief(system="SYSTEM", task="TASK", most=9, sections=()))
    found = launch_command(replace(session, served=(served,)), LaunchOptions("go", printing=True))

    at = found.index("--append-system-prompt-file")
    assert "/p/system.md" == found[at + 1]
    assert "SYSTEM" not in str(found)


@pytest.mark.parametrize(("asked", "expected"), [("", "haiku"), ("opus", "opus")])
def test_the_model_of_the_recipe_is_the_default(asked: str, expected: str) -> None:
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
def test_an_impossible_start_is_refused_in_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command(**options)


def test_only_recipes_without_a_user_print() -> None:
    profiles = (
        *("braindump", "yap", "ramble", "discuss", "task_execution", "opus_review", "enrichment"),
        *("interactive", "manual"),
    )

    assert ["task_execution", "opus_review", "enrichment"] == [
        profile for profile in profiles if prints(profile)
    ]


def test_a_share_of_the_money_is_an_option() -> None:
    found = command(max_cost=1.5)

    assert ("--max-budget-usd", "1.5000") == found[-2:]


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    return launch_in(tmp_path, monkeypatch)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The path of a terminal that replaces the user's."""
    master, slave = pty.openpty()
    path = os.ttyname(slave)
    monkeypatch.setattr("ralphgen.agents.launch.TERMINAL", path)
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
    monkeypatch.setattr("ralphgen.agents.launch.TERMINAL", str(launch.root / "none"))
    launch.program("")

    with pytest.raises(ProjectError, match="no terminal for a conversation"):
        run_terminal(session_in(launch.root), ClaudeCode(), AgentCall(("claude",)))
