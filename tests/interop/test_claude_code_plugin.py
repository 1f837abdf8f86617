"""The real Claude Code with its generated plugin, offline: the denials of its hooks."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, ran
from driving import query
from messages_api import Block, MessagesApi, calls, playing, says
from proved_projects import TESTS, proved_project
from test_claude_code import MODULES, PATIENCE, environment

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
]
PLUGIN = ".ralph/plugin"
PROTECT = '[done]\nprotect = ["golden/**"]\n'
DONE = [says("done")]
START = {"description": "a task", "prompt": "Go on", "subagent_type": "backend"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with checks, a protected folder, subagents and the plugin."""
    root = proved_project(tmp_path / "project", TESTS + PROTECT)
    ran("connect", "claude", "--subagents", "--plugin", "--project", root)
    return root


def variables(root: Path, api: MessagesApi) -> dict[str, str]:
    """Return the variables of a user who has trusted the project's folder."""
    found = environment(root, api)
    said = {"projects": {str(root): {"hasTrustDialogAccepted": True}}}
    (Path(found["HOME"]) / ".claude.json").write_text(json.dumps(said), encoding="utf-8")
    return {**found, "PATH": f"{RALPHGEN.parent}{os.pathsep}{found['PATH']}"}


def run(root: Path, command: Sequence[str], own: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=root,
        env=dict(own),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert 0 == done.returncode, done.stderr + done.stdout
    return done.stdout


def played(
    root: Path,
    *turns: Sequence[Block],
    arguments: Sequence[str] = (),
    prompt: str = "Go on",
    plugin: Sequence[str] = ("--plugin-dir", PLUGIN),
) -> MessagesApi:
    """Play a conversation with the plugin; the model takes the turns, and may edit and call."""
    allowed = ["--allowedTools", "mcp__ralph", "mcp__ralph-backend", "Agent"]
    command = ["claude", "-p", prompt, "--permission-mode", "acceptEdits"]
    with playing(*turns) as api:
        own = variables(root, api)
        run(root, [*command, *plugin, *arguments, *allowed], own)
    return api


def writes(path: str | Path) -> Block:
    return calls("Write", file_path=str(path), content="x")


def session(root: Path) -> list[str]:
    """Return the arguments that start Claude Code in a session on task 1."""
    done = ralphgen("session", "create", "task_execution", "--task", "1", "--json", cwd=root)
    return ["--strict-mcp-config", "--mcp-config", json.loads(done.stdout)["mcp_config"]]


def count_requests(api: MessagesApi, words: str) -> int:
    """Return the number of requests with these words in their newest message."""
    return sum(words in str(one["messages"][-1]["content"]) for one in api.asked)


def test_it_is_a_valid_plugin_and_its_marketplace_installs_it(project: Path) -> None:
    with playing(DONE) as api:
        own = variables(project, api)
        said = run(project, ["claude", "plugin", "validate", "--strict", PLUGIN], own)
        run(project, ["claude", "plugin", "marketplace", "add", f"./{PLUGIN}"], own)
        run(project, ["claude", "plugin", "install", "ralphgen@ralphgen"], own)
        listed = json.loads(run(project, ["claude", "plugin", "list", "--json"], own))

    assert "Validation passed" in said
    assert "commands: ralphgen:next" in said
    assert ["ralphgen@ralphgen"] == [one["id"] for one in listed]
    api = played(project, [writes("golden/a")], DONE, arguments=session(project), plugin=())
    assert "is protected" in api.results()[0]["text"]


def test_a_command_names_the_next_one_and_is_harmless_without_a_session(
    project: Path,
) -> None:
    (project / ".ralph/mcp/context.json").unlink(missing_ok=True)
    api = played(project, [writes(project / "golden/a")], DONE, prompt="/ralphgen:check 7")

    assert "for the task 7" in str(api.asked[0]["messages"])
    assert [False] == [one["failed"] for one in api.results()]
    assert (project / "golden/a").exists()


def test_a_session_changes_nothing_protected_and_calls_nothing_else(project: Path) -> None:
    (project / "link").symlink_to("golden")
    denied = [writes(project / path) for path in ("golden/a", f"{PLUGIN}/x", "link/a", ".ralph/x")]
    denied += [calls("mcp__ralph__set_task_status", id=2, status="blocked", reason="x")]
    close = [calls("mcp__ralph__set_task_status", status="blocked", reason="a question")]
    turns = [*([one] for one in denied), [writes(project / "src/a")], close, DONE]
    api = played(project, *turns, arguments=session(project))
    results = api.results()

    assert [True, True, True, True, True, False, False] == [one["failed"] for one in results]
    assert "is protected: no session may change it" in results[0]["text"]
    assert "and no other" in results[4]["text"]
    assert not (project / "golden").exists()
    assert (project / "src/a").exists()


def test_a_hook_that_does_not_start_denies(project: Path) -> None:
    (project / PLUGIN / "hooks/gate.py").unlink()
    api = played(project, [writes(project / "src/a")], DONE)

    assert [True] == [one["failed"] for one in api.results()]
    assert not (project / "src/a").exists()


def test_a_stop_with_unproved_files_is_blocked_once(project: Path) -> None:
    (project / "code.txt").write_text("1", encoding="utf-8")
    api = played(project, DONE, DONE, arguments=session(project))

    assert 2 == len(api.asked)
    assert 1 == count_requests(api, "not proved: the check")


def test_the_connected_gate_blocks_three_times_at_most(project: Path) -> None:
    (project / "code.txt").write_text("1", encoding="utf-8")
    ran("connect", "claude", "--gate", "--project", project)
    edits = [turn for name in "abc" for turn in ([writes(project / "src" / name)], DONE)]
    api = played(project, DONE, *edits, plugin=())

    assert 3 == count_requests(api, "not proved: the check")
    assert 7 == len(api.asked)


def test_launch_passes_the_plugin_on(project: Path) -> None:
    close = [calls("mcp__ralph__set_task_status", status="blocked", reason="a question")]
    (project / "code.txt").write_text("1", encoding="utf-8")
    words = ["launch", "task_execution", "--task", "1", "--", "--plugin-dir", str(project / PLUGIN)]
    with playing([writes(project / "golden/a")], DONE, close, DONE) as api:
        own = variables(project, api)
        done = subprocess.run(
            [str(RALPHGEN), *words],
            cwd=project,
            env=own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    assert 3 == done.returncode, done.stderr
    assert "is protected" in api.results()[0]["text"]
    assert 1 == count_requests(api, "not proved: the check")


@pytest.mark.parametrize("main", [True, False], ids=["--agent", "subagent"])
def test_an_agent_is_held_to_the_session_of_its_server(project: Path, main: bool) -> None:
    (project / "code.txt").write_text("1", encoding="utf-8")
    status = "mcp__ralph-backend__set_task_status"
    denied = [[writes(project / "golden/a")], [calls(status, id=2, status="blocked", reason="x")]]
    turns = [*denied, DONE, [calls(status, status="blocked", reason="a question")], DONE, DONE]
    start = [] if main else [[calls("Agent", **START, run_in_background=False)]]
    api = played(project, *start, *turns, arguments=["--agent", "backend"] if main else [])
    whole = str([one["messages"] for one in api.asked])

    assert "is protected: no session may change it" in whole
    assert "this session is about id" in whole
    assert 1 == count_requests(api, "not proved: the check")
    assert not (project / "golden").exists()
    assert ["blocked", "pending"] == [row for (row,) in query(project, "SELECT status FROM tasks")]
