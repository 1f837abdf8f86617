"""`ralphgen serve`: the project's server from anywhere inside it, with stdout for the protocol."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from command_line import RALPHGEN, initialized, ralphgen, ran
from driving import Driver, context_for, on_context
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its environment: the user's, created once on a machine."""
    root = initialized(tmp_path_factory.mktemp("serving") / "p")
    ran("regen", root)
    (root / "src/deep").mkdir(parents=True)
    return root


def served(cwd: Path, *arguments: str, **environment: str) -> list[str]:
    """The tools that a real client is given by `ralphgen serve`."""
    parameters = StdioServerParameters(
        command=str(RALPHGEN),
        args=["serve", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
    )
    with start_blocking_portal() as portal:
        client = Client(stdio_client(parameters))
        with portal.wrap_async_context_manager(client) as session:
            return Driver(session, portal).names()


@pytest.mark.thorough
def test_a_folder_inside_the_project_is_enough(root: Path) -> None:
    assert 10 == len(served(root / "src/deep"))


@pytest.mark.thorough
def test_a_session_is_named_by_its_context(root: Path) -> None:
    context = context_for(root, "discuss")

    assert [
        "list_disciplines",
        "get_discipline",
        "update_discipline",
        "get_project_info",
    ] == sorted(
        served(root, "ralph", *on_context(context)),
        key=["list_disciplines", "get_discipline", "update_discipline", "get_project_info"].index,
    )


def test_the_folder_of_claude_code_is_the_fallback(root: Path, tmp_path: Path) -> None:
    assert 10 == len(served(tmp_path, CLAUDE_PROJECT_DIR=str(root)))


def test_stdout_is_the_protocols_alone(root: Path) -> None:
    request: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    done = ralphgen("serve", cwd=root, stdin=f"{json.dumps(request)}\n")

    (answer,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (0, 1) == (done.returncode, answer["id"])


def test_without_a_project_it_is_one_sentence_and_code_one(tmp_path: Path) -> None:
    done = ralphgen("serve", cwd=tmp_path, more={"CLAUDE_PROJECT_DIR": ""})

    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith(f'error: no ".ralph/mcp/server.py" in "{tmp_path}" or above')
    assert 'hint: run "ralphgen init" there\n' in done.stderr


def test_refusals_of_the_server_are_refusals_of_serve(root: Path) -> None:
    context = ralphgen("serve", "--context", "nosuch.json", "--sha256", "0", cwd=root)
    fine = ralphgen("serve", "--check", cwd=root)

    assert (2, "") == (context.returncode, context.stdout)
    assert "nosuch.json" in context.stderr
    assert (0, "") == (fine.returncode, fine.stdout)


def test_a_write_that_was_broken_off_is_finished_first(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "p")
    commit = copy / ".ralph/mcp/.commit"
    commit.mkdir()
    for name in ("policy.py", "manifest.json"):
        (copy / ".ralph/mcp" / name).rename(commit / name)
    done = ralphgen("serve", "--check", cwd=copy)

    assert (0, False) == (done.returncode, commit.exists()), done.stderr


def test_a_project_without_its_lock_is_a_sentence(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "p")
    ran("init", copy, "--kit", "dela", "--no-install")
    (copy / ".ralph/mcp/requirements.lock").unlink()
    done = ralphgen("serve", cwd=copy)

    assert (2, "") == (done.returncode, done.stdout)
    assert "were edited: requirements.lock\nhint: " in done.stderr


def test_a_project_without_a_server_is_not_passed_over_for_one_around_it(root: Path) -> None:
    inner = root / "inner"
    (inner / ".ralph" / "db").mkdir(parents=True)
    done = ralphgen("serve", "--check", cwd=inner)

    assert (1, "") == (done.returncode, done.stdout)
    assert f'there is no server in "{inner}"\nhint: run "ralphgen regen" there' in done.stderr
