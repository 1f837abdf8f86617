"""The released dela compared with our server: every difference is documented and true."""

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from dela_cases import CALLED, CALLS, PLAIN, RULED, allowlists
from dela_differences import Difference, differences, table_rows
from dela_projects import (
    NEW_PLACE,
    OLD_PLACE,
    allow,
    at_home,
    entry,
    fixture_repository,
    project_with,
)
from driving import Driver, connected
from lifelines import until
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from node_packages import NEEDED, modules

FITS = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = [*NEEDED, pytest.mark.skipif(not FITS, reason="dela's package is for Linux on x86-64")]
PACKAGE = "@aleyan/dela-linux-amd64"
VERSION = "0.0.6"
PROGRAMS = ("make", "npm", "node", "sh", "which", "echo", "test", "true", "sleep")
ANY_ORDER = "*"
"""What dela's order is in a line on one that is another each time."""


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a PATH with the same programs on every machine, and bash as the user's shell.

    `docker` is there without its plugin, and `install` has the name of a task.
    """
    folder = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found, f"there is no {name} on PATH"
        (folder / name).symlink_to(found)
    for name in ("docker", "install"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))
        patch.setenv("SHELL", "/bin/bash")
        yield


def dela_command(root: Path) -> list[str]:
    return [str(modules() / PACKAGE / "dela"), "mcp", "--cwd", str(root)]


@contextmanager
def dela(root: Path) -> Iterator[Driver]:
    """The SDK's client on dela itself, which serves the tasks of a project."""
    command, *arguments = dela_command(root)
    parameters = StdioServerParameters(command=command, args=arguments, cwd=root)
    with start_blocking_portal() as portal:
        session = Client(stdio_client(parameters), mode="legacy")
        with portal.wrap_async_context_manager(session) as client:
            yield Driver(client, portal)


@contextmanager
def both(root: Path, home: Path, *entries: str) -> Iterator[tuple[Driver, Driver]]:
    """Two servers on a project, that of dela and ours, with the allowlist of one home."""
    allow(home, *entries)
    with at_home(home), dela(root) as theirs, connected(root, kit="dela") as own:
        yield theirs, own


def ask_both(
    servers: tuple[Driver, Driver], ask: Callable[..., str], *arguments: Any
) -> tuple[str, str]:
    """Return the answers of both to a question."""
    theirs, own = servers
    return ask(theirs, *arguments), ask(own, *arguments)


def compare(section: str, found: Mapping[str, tuple[str, str]]) -> None:
    """Compare the results of dela and ours: the differing cases must be the lines of the table."""
    lines = table_rows(section)
    told = {row.subject[0]: (row.dela, row.ours) for row in lines}
    differing = {case: both for case, both in found.items() if both[0] != both[1]}

    assert all(row.why for row in lines)
    assert told == differing


def test_the_tables_are_on_the_version_that_is_tested() -> None:
    package = json.loads((modules() / PACKAGE / "package.json").read_text(encoding="utf-8"))

    assert VERSION == package["version"]


def listed_by_both(root: Path, home: Path) -> list[Difference]:
    """Return the differences between the listings of a project in which everything is allowed."""
    with both(root, home, entry("Directory", root)) as servers:
        one, two = (server.call("list_tasks")["tasks"] for server in servers)
    assert {frozenset(task) for task in one} == {frozenset(task) for task in two}
    assert all(task["allowlisted"] for task in (*one, *two))
    first, second = (list(dict.fromkeys(task["runner"] for task in tasks)) for tasks in (one, two))
    assert first == [runner for runner in second if runner in first]
    return list(differences(root, one, two))


def test_listings_differ_only_as_documented(tmp_path: Path) -> None:
    """Two repositories are compared: the fixture, and one that dela supports better."""
    roots = fixture_repository(tmp_path / "all"), project_with(tmp_path / "plain", PLAIN)
    found = [one for root in roots for one in listed_by_both(root, tmp_path / "home")]
    lines = [
        (row, name)
        for row in table_rows("Listings")
        for name in re.findall("`(.*?)`", row.subject[2])
    ]
    unwritten = [one for one in found if not any(one.is_of(row, name) for row, name in lines)]
    untrue = [
        (*row.subject[:2], name)
        for row, name in lines
        if not any(one.is_of(row, name) for one in found)
        and (row.subject[1], row.dela) != ("order", ANY_ORDER)
    ]

    assert all(row.why for row, _ in lines)
    assert [] == unwritten
    assert [] == untrue


def outcome(driver: Driver, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the result of a call: a code of the protocol, the end of a task, or "answer"."""
    wait = {"wait_for_exit_seconds": 20} if tool == "task_start" else {}
    try:
        failed, text = driver.ask(tool, {**wait, **arguments})
    except MCPError as error:
        return str(error.error.code)
    assert not failed, text
    if tool != "task_start":
        return "answer"
    answer = json.loads(text)
    if answer["state"] == "running":  # dela reports this for a task that has just ended too
        answer = ended(driver, answer["pid"])
    return f"signal {answer['signal']}" if answer.get("signal") else f"exit {answer['exit_code']}"


def ended(driver: Driver, pid: int) -> dict[str, Any]:
    """Wait until a process has ended; return the server's facts about it."""

    def status() -> dict[str, Any]:
        told = driver.call("task_status", pid=pid)
        found: dict[str, Any] = told["jobs"][0] if "jobs" in told else told
        return found

    assert until(lambda: status()["state"] != "running")
    return status()


def stopped_twice(driver: Driver) -> str:
    """Return the result of the second stop of a task."""
    pid = driver.call("task_start", unique_name="hold", wait_for_exit_seconds=0)["pid"]
    driver.call("task_stop", pid=pid)
    ended(driver, pid)
    return outcome(driver, "task_stop", {"pid": pid})


def test_the_same_calls_have_the_same_effect_except_as_documented(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", CALLED)
    entries = entry("Directory", root), entry("Deny", root / "Makefile", "deploy")
    with both(root, tmp_path / "home", *entries) as servers:
        found = {case: ask_both(servers, outcome, *call) for case, call in CALLS.items()}
        found["the stop of what has ended"] = ask_both(servers, stopped_twice)

    compare("Calls", found)


def fields(driver: Driver) -> dict[str, str]:
    """Return the fields of each tool's answer about a running task."""
    started = driver.call("task_start", unique_name="hold", wait_for_exit_seconds=0)
    pid = started["pid"]
    status, told = driver.call("status"), driver.call("task_status", pid=pid)
    answers = {
        "list_tasks": driver.call("list_tasks"),
        "task_start": started,
        "status": status,
        "each of status": status["running"][0],
        "task_status": told,
        "each of task_status": told["jobs"][0] if "jobs" in told else told,
        "task_output": driver.call("task_output", pid=pid),
        "task_stop": driver.call("task_stop", pid=pid),
    }
    return {name: " ".join(sorted(answer)) for name, answer in answers.items()}


def test_answers_have_the_same_fields_except_as_documented(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", CALLED)
    with both(root, tmp_path / "home", entry("Directory", root)) as (theirs, own):
        one, two = fields(theirs), fields(own)

    compare("Answers", {name: (one[name], two[name]) for name in two})


def allowed(driver: Driver) -> str:
    """The unique names of the tasks that may be started."""
    tasks = driver.call("list_tasks")["tasks"]
    return " ".join(sorted(task["unique_name"] for task in tasks if task["allowlisted"])) or "none"


def allowed_by_both(root: Path, own: Driver) -> tuple[str, str]:
    """Return what the current allowlist permits in both; dela is started for it, if it starts."""
    command = dela_command(root)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if b"configuration is unavailable" in done.stderr:
        return "does not start", allowed(own)
    with dela(root) as theirs:
        return allowed(theirs), allowed(own)


def test_one_allowlist_means_the_same_to_both_except_as_documented(tmp_path: Path) -> None:
    """Ours is queried repeatedly, and dela is restarted for each: it reads the file only then."""
    home = tmp_path / "home"
    root = project_with(home / "project", RULED)
    (home / "link").symlink_to(root)
    build = entry("Task", root / "Makefile", "build")
    with at_home(home), connected(root, kit="dela") as own:
        found = {"no folder for it": allowed_by_both(root, own)}
        for case, entries in allowlists(root).items():
            allow(home, *entries)
            found[case] = allowed_by_both(root, own)
        allow(home, build)
        allow(home, entry("Directory", root), place=OLD_PLACE)
        found["one in each place"] = allowed_by_both(root, own)
        (home / NEW_PLACE).unlink()
        found["one in the old place"] = allowed_by_both(root, own)
        (home / OLD_PLACE).unlink()
        found["a folder without it"] = allowed_by_both(root, own)
        with dela(root) as theirs:
            allow(home, build)
            found["a change while the server runs"] = allowed(theirs), allowed(own)

    compare("Allowlists", found)
