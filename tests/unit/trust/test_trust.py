"""Programs that a clone makes the user run require the user's recorded consent."""

import base64
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, started_beside
from proved_projects import git
from trusting import MODE, add, configure, task_session

pytestmark = pytest.mark.slow

SERVER = '\n[disciplines.testing.mcp_servers.notes]\ncommand = "touch"\nargs = ["PWNED"]\n'
CHECK = '\n[[done.checks]]\nname = "tests"\nrun = ["touch", "PWNED"]\n'
SETUP = '\n[loop]\nsetup = [["touch", "PWNED"]]\n'
AGENT = '\n[loop.agents.mine]\ncommand = ["touch", "PWNED"]\n'
KEY = """
[http]
id = "1b671a64-40d5-491e-99b0-da01ff1f3341"
url = "https://mcp.example.com/mcp"
key_env = "PATH"
"""


def test_a_clone_as_ralphgen_writes_it_needs_no_record(clone: Path) -> None:
    assert 0 == task_session(clone).returncode
    assert 0 == ralphgen("doctor", clone).returncode


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SERVER, 'discipline "testing" starts "notes": touch PWNED'),
        (MODE, '[launch] sets permission_mode to "bypassPermissions"'),
        (MODE, '[launch] allows "Bash(rm:*)"'),
        (CHECK, 'check "tests" runs touch PWNED'),
        (SETUP, "[loop] setup runs touch PWNED"),
        (AGENT, 'agent "mine" runs touch PWNED'),
        (KEY, '[http.key_env] of .ralph/ralphgen.toml is "PATH"'),
    ],
)
def test_commands_of_a_clone_are_refused_until_trusted(clone: Path, text: str, said: str) -> None:
    configure(clone, text)
    before = {*(clone / ".ralph/mcp").rglob("*")}
    for refused in (
        task_session(clone),
        ralphgen("launch", "task_execution", "--task", "1", "--dry-run", "--project", clone),
        ralphgen(
            "session", "create", "task_execution", "--task", "1", "--default", "--project", clone
        ),
    ):
        assert 2 == refused.returncode
        assert said in refused.stderr
        assert 'approve with "ralphgen trust"' in refused.stderr
    assert before == {*(clone / ".ralph/mcp").rglob("*")}

    unasked = ralphgen("trust", "-C", clone)
    shown, _, refusal = unasked.stderr.partition("error: ")
    assert 2 == unasked.returncode
    assert shown.startswith("on your machine, this project runs or uses:\n  ")
    assert "confirmation needed, but there is no terminal\nhint: pass --yes\n" == refusal
    done = ralphgen("trust", "-C", clone, "--yes")

    assert 0 == done.returncode
    assert said in done.stderr
    assert said in task_session(clone).stderr  # every time, whether it asks or not
    assert 0 == task_session(clone).returncode
    assert "nothing to approve" in ralphgen("trust", "-C", clone).stderr

    configure(clone, '\n[disciplines.testing.mcp_servers.more]\ncommand = "id"\n')

    assert 'starts "more": id' in task_session(clone).stderr
    assert 2 == task_session(clone).returncode


def test_a_server_in_the_database_is_another_reason_to_ask(clone: Path) -> None:
    entry = json.dumps([{"name": "db", "command": "id", "env": {"TOKEN": "secret-value"}}])
    add(clone, f"UPDATE disciplines SET mcp_servers = '{entry}' WHERE name = 'testing'")
    refused = task_session(clone)

    assert 2 == refused.returncode
    assert 'starts "db": id with TOKEN=…' in refused.stderr
    assert "secret-value" not in refused.stderr
    assert (
        0 == ralphgen("session", "create", "braindump", "--project", clone).returncode
    )  # starts it not


def test_a_worker_is_not_sent_to_create_a_database(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(clone / ".ralph/db")
    configure(clone, f'{SETUP}remote = "origin"\n')
    git(clone, "init", "-q")
    git(clone, "remote", "add", "origin", "https://example.com/x.git")
    git(clone, "commit", "-q", "--allow-empty", "-m", "x")
    facts = base64.urlsafe_b64encode(b'{"wrk": "mac-2"}').decode()
    monkeypatch.setenv("RALPH_WORKER_TOKEN", f"x.{facts}.x")
    loop = ("loop", "--server", "http://127.0.0.1:1/mcp", "--worktrees", "-C", clone)

    refused = ralphgen(*loop)
    approved = ralphgen("trust", "--yes", "-C", clone)

    assert refused.stderr.endswith('\nhint: review and approve with "ralphgen trust"\n')
    assert approved.stderr.endswith(
        'a worker needs no database; next: "ralphgen loop --server URL --worktrees"\n'
    )


def test_a_session_after_regen_does_not_ask_for_the_users_edit(own: Path) -> None:
    add(own, "INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'FF')")
    add(own, "INSERT INTO tasks (feature, discipline, title) VALUES ('f', 'testing', 'T')")
    configure(own, SERVER + MODE)
    assert 2 == task_session(own).returncode  # without consent so far
    assert 0 == ralphgen("regen", own, "--no-install").returncode

    assert 0 == task_session(own).returncode


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_at_a_terminal_the_user_is_asked(clone: Path, answer: str, code: int) -> None:
    configure(clone, SERVER)
    command = ["session", "create", "task_execution", "--task", "1", "--project", str(clone)]
    primary, secondary = pty.openpty()
    with started_beside(*command, stdin=secondary, stderr=secondary) as process:
        os.close(secondary)
        shown = b""
        while b"y/N" not in shown:
            shown += os.read(primary, 4096)
        os.write(primary, f"{answer}\n".encode())
        process.communicate()
    os.close(primary)

    assert code == process.returncode
    assert b"touch PWNED" in shown


def test_no_agent_trusts_for_the_user(clone: Path) -> None:
    """Removing the mark from its own environment does not help: its shell still has it."""
    configure(clone, MODE)
    command = [str(RALPHGEN), "trust", "--yes", "-C", str(clone)]
    unmarked = (
        f"import os; del os.environ['RALPHGEN_SESSION']; os.execv({str(RALPHGEN)!r}, {command})"
    )
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {unmarked!r}])"
    environment = {**os.environ, "RALPHGEN_SESSION": "s"}
    for tried in (command, [sys.executable, "-c", below]):
        done = subprocess.run(tried, env=environment, capture_output=True, text=True, check=False)
        assert '"ralphgen trust" is not for agents' in done.stderr

    assert 2 == task_session(clone).returncode


def test_hooks_in_a_clone_are_asked_for(clone: Path) -> None:
    """Claude Code runs them silently when it prints."""
    folder = clone / ".claude"
    folder.mkdir()
    harmless = {"model": "m", "permissions": {"deny": ["Bash"]}}
    (folder / "settings.json").write_text(json.dumps(harmless), encoding="utf-8")
    assert 0 == task_session(clone).returncode

    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": "touch PWNED"}]}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    refused = task_session(clone)

    assert 2 == refused.returncode
    assert 'Claude Code reads "hooks" from .claude/settings.json' in refused.stderr
    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    assert 0 == task_session(clone).returncode


def test_an_agent_with_a_separate_terminal_is_not_asked(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(clone, SERVER)
    monkeypatch.setenv("RALPHGEN_SESSION", "s")
    command = ["session", "create", "task_execution", "--task", "1", "--project", str(clone)]
    primary, secondary = pty.openpty()
    with started_beside(*command, stdin=secondary, stderr=secondary) as process:
        os.write(primary, b"y\n" * 9)
        process.wait()
    os.close(secondary)
    os.close(primary)

    assert 2 == process.returncode


def test_a_long_command_is_listed_to_its_end(clone: Path) -> None:
    command = f"pytest # {'the tests of every package ' * 200}\\ntouch PWNED"
    configure(clone, CHECK.replace('"touch", "PWNED"', f'"sh", "-c", "{command}"'))
    (clone / "said").write_text(ralphgen("regen", clone, "--no-install").stderr, encoding="utf-8")
    git(clone, "init", "-q")
    git(clone, "commit", "-q", "--allow-empty", "-m", "x")
    refused = ralphgen("gate", "-C", clone)
    listed = ralphgen("trust", "-C", clone, stdin="")

    for said in (refused.stderr, listed.stderr, (clone / "said").read_text(encoding="utf-8")):
        assert "\\ntouch PWNED" in said


def remote(url: str) -> str:
    facts = f'type = "http"\nurl = "{url}"\n'
    return f"\n[disciplines.testing.mcp_servers.notes]\n{facts}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://evil.example#@good.example/mcp?x=1", "https://evil.example#…"),
        ("https://evil.example?@good.example/mcp", "https://evil.example?…"),
        ("https://evil.example/@good.example/mcp", "https://evil.example/@good.example/mcp"),
        ("https://me:pass@good.example:8443/mcp", "https://…@good.example:8443/mcp"),
        ("https://[::1]:1/mcp?key=1#a", "https://[::1]:1/mcp?…"),
    ],
)
def test_the_host_of_a_server_is_shown(clone: Path, url: str, shown: str) -> None:
    configure(clone, remote(url))

    assert f'connects to "notes" at {shown}\n' in ralphgen("trust", "-C", clone).stderr


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example\\\\@good.example/mcp",
        "https://evil.example/\\\\good.example",
        "https://good.ex\u0430mple/mcp",
        "https://me@/mcp",
    ],
)
def test_an_address_that_programs_read_differently_is_refused(clone: Path, url: str) -> None:
    configure(clone, remote(url))

    assert "without a backslash" in ralphgen("trust", "-C", clone, "--yes").stderr


def test_variables_of_a_server_are_shown_unless_they_hold_secrets(clone: Path) -> None:
    env = (
        'env = { NODE_OPTIONS = "--require ./evil.js", API_TOKEN = "hidden", HOST = "${HOST}", '
        'URL = "https://me:hidden@a.example" }\n'
    )
    configure(clone, SERVER + env)
    shown = ralphgen("trust", "-C", clone, "--yes").stderr

    assert " with NODE_OPTIONS='--require ./evil.js' with API_TOKEN=… with HOST=…" in shown
    assert "hidden" not in shown
    path = clone / ".ralph/ralphgen.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("hidden", "h"), encoding="utf-8")
    assert "API_TOKEN" in ralphgen("trust", "-C", clone).stderr
