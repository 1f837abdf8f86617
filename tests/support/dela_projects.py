"""Projects with tasks, homes that allow them, and the server's answers about them."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cases import lay_down
from driving import Driver, Era, connected, create_project, quiet
from lifelines import until
from mcp import MCPError

from ralphgen.emit.workflows import regenerate
from ralphgen.environment.location import environment_for

SIX = ("list_tasks", "task_start", "status", "task_status", "task_output", "task_stop")
NEW_PLACE = ".config/dela/allowlist.toml"
OLD_PLACE = ".dela/allowlist.toml"
BOTH_VERSIONS = ("auto", pytest.param("legacy", marks=pytest.mark.soak))
"""Stateless and, on demand, with a handshake: that both answer alike is held for all kits."""
GATED = """#!/bin/sh
# Wait until the file is there whose name is the argument
echo waiting
until [ -e "$1" ]; do sleep 0.01; done
echo done
"""
"""A script whose end a test decides on, by creating a file."""
HOLDING = """#!/bin/sh
echo started
exec sleep 600
"""
"""A script that runs until it is asked to end, which it then does at once."""


class Refusal(NamedTuple):
    """An error of the protocol, as a client sees it."""

    code: int
    message: str
    data: Any


def project_with(root: Path, files: Mapping[str, str], *, settings: str = "") -> Path:
    """A project with the kit dela alone and these files; a script that begins with #! can be run.

    `settings` are lines of its table in the config. Texts may be indented. Returns the real path.
    """
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    return create_project(root, config=f'kits = ["dela"]\n[dela]\n{settings}\n').resolve()


def fixture_repository(root: Path) -> Path:
    """The repository of `fixtures/dela` with its servers; its real path."""
    lay_down("dela", root)
    regenerate(root, force=False, say=quiet)
    return root.resolve()


@contextmanager
def at_home(home: Path) -> Iterator[Path]:
    """Use a separate home for every server started in the block; environments remain shared."""
    environments = environment_for("").folder.parents[1]  # made once, not for every home
    home.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("RALPHGEN_HOME", str(environments))
        yield home


def entry(scope: str, path: object, *tasks: str) -> str:
    """An entry of an allowlist."""
    names = f"tasks = {json.dumps(tasks)}\n" if tasks else ""
    return f'[[entries]]\npath = {json.dumps(str(path))}\nscope = "{scope}"\n{names}'


def allow(home: Path, *entries: str, place: str = NEW_PLACE) -> Path:
    """Replace the allowlist of a home atomically; return its path."""
    path = home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text("\n".join(entries), encoding="utf-8")
    return draft.replace(path)


@contextmanager
def serving(root: Path, home: Path, *, era: Era = "auto") -> Iterator[Driver]:
    """A user's session with the tasks of a project, all allowed at first."""
    with at_home(home):
        allow(home, entry("Directory", root))
        with connected(root, kit="dela", era=era) as driver:
            yield driver


def refusal(driver: Driver, tool: str, **arguments: Any) -> Refusal:
    """The error of a call that must be refused by the protocol itself."""
    try:
        found = driver.ask(tool, arguments)
    except MCPError as error:
        return Refusal(error.error.code, error.error.message, error.error.data)
    raise AssertionError(f"{tool} was not refused: {found}")


def allowed_names(driver: Driver) -> list[str]:
    """The unique names of the tasks that may be started, in the order of the listing."""
    tasks = driver.call("list_tasks")["tasks"]
    return [task["unique_name"] for task in tasks if task["allowlisted"]]


def start_task(driver: Driver, name: str, line: str, **arguments: Any) -> int:
    """Start a task in the background, and wait until it has printed a line; its PID."""
    answer = driver.call("task_start", unique_name=name, wait_for_exit_seconds=0, **arguments)
    pid: int = answer["pid"]
    assert until(lambda: line in driver.call("task_output", pid=pid)["lines"])
    return pid


def job(driver: Driver, pid: int) -> dict[str, Any]:
    """Return the server's facts about one process."""
    (found,) = driver.call("task_status", pid=pid)["jobs"]
    told: dict[str, Any] = found
    return told


def ended(driver: Driver, pid: int) -> dict[str, Any]:
    """Wait until a process has ended; return the server's facts about it."""
    assert until(lambda: job(driver, pid)["state"] != "running")
    return job(driver, pid)


def printed(dela: Driver, name: str, **arguments: Any) -> str:
    """Return the output of a task that must succeed."""
    given = {"wait_for_exit_seconds": 60, **arguments}
    answer = dela.call("task_start", unique_name=name, **given)
    assert ("exited", 0) == (answer["state"], answer["exit_code"]), answer
    text: str = answer["initial_output"]
    return text
