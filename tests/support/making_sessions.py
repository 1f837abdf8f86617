"""Sessions as `ralphgen session create` makes them: its answers, and clients on what it wrote."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command_line import ralphgen
from driving import Driver, Era, context_for, on_context, quiet, server_command, started

from ralphgen.project.config import LaunchConfig
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.session import BY_CLIENT
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request
from ralphgen.sessions.model import PreparedSession, Served


def session_json(root: Path, recipe: str, *options: str) -> dict[str, Any]:
    """Return the output of `ralphgen session create … --json`."""
    done = ralphgen("session", "create", recipe, *options, "--json", "--project", root)
    assert 0 == done.returncode, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def opened(root: Path, recipe: str, *, dry_run: bool = False, **request: Any) -> PreparedSession:
    """Create a session as `made` does, without a process."""
    asked = Request(recipe, **request)
    return create_session(
        root, asked, say=quiet, ask=lambda _: False, dry_run=dry_run, user=BY_CLIENT
    )


def prepared(
    root: Path, profile: str = "task_execution", *, task: int | None = 7
) -> PreparedSession:
    """Return a session in which no command would start, and which has no files."""
    return PreparedSession(
        root=root,
        work_tree=root,
        session_id="s",
        recipe="mine",
        profile=profile,
        folder=root,
        context=root / "context.json",
        mcp_config=root / "mcp.json",
        sha256="",
        task=task,
        feature=None,
        discipline=None,
        target=None,
        served=(Served(kit="ralph", command=("none",), tools=(), instructions="", prompt=""),),
        other_servers=(),
        runs=(),
        launch=LaunchConfig(),
        transcripts=False,
        warnings=(),
    )


def described(command: Sequence[str]) -> dict[str, Any]:
    """Return the description of the session that a server's command line starts."""
    done = subprocess.run(
        [*command, "--describe"], input="", capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def describe_session(root: Path, recipe: str, **facts: object) -> dict[str, Any]:
    """Return a session of the recipe as described by its server; `facts` override its context."""
    context = context_for(root, recipe, **facts)
    return described(server_command(root, "ralph", *on_context(context)))


@contextmanager
def client_of(
    mcp_config: str | Path,
    kit: str = "ralph",
    *,
    era: Era = "auto",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Driver]:
    """The SDK's client on a server of an MCP config, started according to the config.

    `environment` are variables for the server in addition to those that the SDK passes on.
    """
    entry = json.loads(Path(mcp_config).read_text(encoding="utf-8"))["mcpServers"][kit]
    assert {"command", "args"} == set(entry) - {"timeout"}
    with started([entry["command"], *entry["args"]], "/", environment or None, mode=era) as driver:
        yield driver


@contextmanager
def empty_sessions(project: Path) -> Iterator[Path]:
    """The folder of sessions, empty before and after."""
    folder = project / SESSIONS
    folder.mkdir(mode=0o700, exist_ok=True)
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
