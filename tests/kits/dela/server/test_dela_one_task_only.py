"""An allowed task cannot start another one by directory, arguments or variables."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dela_projects import allow, at_home, entry, project_with
from driving import Driver, connected
from mcp import MCPError
from real_runners import PLACES, needs

WHOLE = 60  # seconds to wait for short tasks
GUARDED = {
    "Makefile": "build: ; @echo allowed\n",
    "two/Makefile": "build: ; @echo denied\n",
    "two/package.json": '{"scripts": {"build": "true"}}',
    "package.json": '{"scripts": {"pack": "echo allowed"}}',
    "package-lock.json": "{}",
    "near/package.json": '{"scripts": {"pack": "echo denied"}}',
    "near/deep/.keep": "",
    "pom.xml": "<project><modelVersion>4.0.0</modelVersion></project>",
    "justfile": """\
        set quiet
        mod ship
        alias d := deploy
        ok:
            echo allowed
        deploy:
            echo denied
        [private]
        hidden:
            echo denied
        """,
    "ship.just": "to:\n    @echo denied\n",
    "near/justfile": "ok:\n    @echo denied\n",
    "near/shell.sh": "#!/bin/sh\necho denied\n",
    "around/Makefile": "X := $(shell echo denied >&2)\ninclude ../Makefile\n",
    "linked/.keep": "",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Yield a server on a project that allows only a few tasks of the root."""
    root = project_with(tmp_path_factory.mktemp("guarded"), GUARDED)
    (root / "linked/Makefile").symlink_to("../Makefile")
    denied = [entry("Deny", root / name) for name in ("two", "near", "ship.just")]
    given = [entry("File", root / name) for name in ("Makefile", "package.json")]
    given.append(entry("Task", root / "pom.xml", "verify"))
    with at_home(tmp_path_factory.mktemp("home")) as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLACES)
        allow(home, *given, entry("Task", root / "justfile", "ok"), *denied)
        with connected(root, kit="dela") as driver:
            yield driver


def attempt(dela: Driver, **given: Any) -> str:
    """Run a task; return its output or the code of the refusal."""
    try:
        _, text = dela.ask("task_start", {"wait_for_exit_seconds": WHOLE, **given})
    except MCPError as error:
        return str(error.error.code)
    return str(json.loads(text)["initial_output"])


NOT = "not denied"  # any result without the output "denied"
ATTEMPTS: list[tuple[str, dict[str, Any], str]] = [
    # required programs; arguments; output or code of the refusal
    ("make", {"unique_name": "build"}, "allowed"),
    ("npm node", {"unique_name": "pack"}, "allowed"),
    ("just", {"unique_name": "ok"}, "allowed"),
    ("make", {"unique_name": "build", "cwd": "two"}, NOT),
    ("npm node", {"unique_name": "pack", "cwd": "near/deep"}, NOT),
    *(
        ("just", {"unique_name": "ok", "args": words.split()}, NOT)
        for words in ("deploy", "ship::to", "d", "hidden", "ship to")
    ),
    ("just", {"unique_name": "ok", "env": {"JUST_JUSTFILE": "near/justfile"}}, NOT),
    (
        "npm node",
        {"unique_name": "pack", "env": {"npm_config_script_shell": "./near/shell.sh"}},
        NOT,
    ),
    *(
        ("sh", {"unique_name": "verify", "args": [word]}, "-32602")
        for word in (
            *("deploy", "exec:java", "deploy:deploy"),
            *("--file=near/pom.xml", "-fnear/pom.xml", "-s=x", "-f"),
        )
    ),
    *(
        ("sh", {"unique_name": "build", **given}, "-32602")
        for given in (
            {"args": [".EXTRA_PREREQS=deploy"]},
            {"env": {".EXTRA_PREREQS": "deploy"}},
            {"env": {"WORDS": "$(shell echo denied)"}},
            {"env": {"HOME": "near"}},
            {"args": ["x" * 100_000]},
        )
    ),
    *(("sh", {"unique_name": "build", "cwd": folder}, "-32010") for folder in ("around", "linked")),
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [pytest.param(*row, marks=needs(*programs.split())) for programs, *row in ATTEMPTS],
)
def test_denied_task_does_not_run(guarded: Driver, given: dict[str, Any], expected: str) -> None:
    """The tasks are denied or not allowed."""
    found = attempt(guarded, **given)

    assert "denied" not in found
    assert expected in (found, NOT) or (expected == "allowed" and "allowed" in found)


@pytest.mark.parametrize("folder", ["around", "linked"])
def test_allowed_file_does_not_allow_files_that_include_or_link_it(
    guarded: Driver, folder: str
) -> None:
    listed = guarded.call("list_tasks", cwd=folder)["tasks"]

    assert [False] == [task["allowlisted"] for task in listed if task["unique_name"] == "build"]
