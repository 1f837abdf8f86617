"""Faults of other task servers that must not return: permission to start, and ways around it.

The numbers refer to the list of faults that this kit was built against.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import (
    HOLDING,
    allow,
    entry,
    printed,
    project_with,
    refusal,
    serving,
    start_task,
)
from driving import Driver, server_command
from wire import running

FILES = {
    "Makefile": """\
        build:
        \t@echo build of make
        show:
        \t@echo "X=$(X)"
        splits:
        \t@echo built $(X)
        """,
    "sub/Makefile": "below:\n\t@echo below\n",
    "build.sh": "#!/bin/sh\necho build of sh\n",
    "hold.sh": HOLDING,
    "mark.sh": '#!/bin/sh\ntouch "$1"\n',
    "tools/real.sh": "#!/bin/sh\necho through a link\n",
    "cheat.sh": '#!/bin/sh\nprintf "y\\ny\\n" | "$1" dela allow mark 2>&1\necho "code $?"\n',
    ".travis.yml": "jobs:\n  deploy:\n    script: ./deploy\n",
    "CMakeLists.txt": "add_custom_target(image)\n",
}
BAD: Any = {"wait_for_exit_seconds": "long"}
AWAY: Any = {"cwd": "/"}
AROUND: Any = {"args": ["--version"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("allowlist") / "project"
    root.mkdir()
    (root / "linked.sh").symlink_to("tools/real.sh")
    return project_with(root, FILES, settings="max_jobs = 1")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def serving_all(root: Path, home: Path) -> Iterator[Driver]:
    with serving(root, home) as driver:
        yield driver


@pytest.fixture
def dela(serving_all: Driver, root: Path, home: Path) -> Driver:
    """Return a server on the project, with all tasks allowed."""
    allow(home, entry("Directory", root))
    return serving_all


def test_r11_a_project_that_is_reached_by_a_link_is_the_same_project(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(home, entry("File", root / "Makefile"))
    (tmp_path / "link").symlink_to(root)
    monkeypatch.setenv("HOME", str(home))
    command = server_command(tmp_path / "link", "dela")
    assert str(tmp_path) in command[2]
    with running(tmp_path / "link", "dela") as server:
        server.shake_hands()
        answer = server.ask("tools/call", {"name": "list_tasks", "arguments": {"runner": "make"}})
    tasks = json.loads(answer["result"]["content"][0]["text"])["tasks"]

    assert [(str(root / "Makefile"), True)] * 3 == [
        (task["file_path"], task["allowlisted"]) for task in tasks
    ]


@pytest.mark.parametrize("name", ["show", "splits"])
def test_a_variable_of_make_is_plain_words_for_the_shell_of_the_recipe(
    dela: Driver, tmp_path: Path, name: str
) -> None:
    """An allowed task ran any command: `args ["X=; touch here"]`, and so did its environment."""
    mark = tmp_path / "mark"
    for value in (f"; touch {mark}", f"`touch {mark}`", f"a\ntouch {mark}"):
        by_argument = refusal(dela, "task_start", unique_name=name, args=[f"X={value}"])
        by_variable = refusal(dela, "task_start", unique_name=name, env={"X": value})

        assert (-32602, -32602) == (by_argument.code, by_variable.code)
        assert "which make would write into a command" in by_argument.message
        assert by_argument.data.startswith("Use plain words")
    assert not mark.exists()
    assert "built é-1.2@x,y:z/%+=^_\n" == printed(dela, "splits", args=["X=é-1.2@x,y:z/%+=^_"])


def test_of_several_reasons_the_first_is_told_and_nothing_is_started(
    dela: Driver, root: Path, home: Path, tmp_path: Path
) -> None:
    """Arguments, folder, name, allowlist, runner, and last the number of tasks."""
    mark = tmp_path / "mark"
    pid = start_task(dela, "hold", "started")  # the maximum number of running tasks
    parts = ("Makefile", "CMakeLists.txt", "mark.sh")
    allow(home, *(entry("File", root / name) for name in parts))
    calls: list[tuple[str, dict[str, Any], int, str]] = [
        ("nothing", {**BAD, **AWAY}, -32602, ""),
        ("nothing", AWAY, -32603, "Requested cwd '/' is outside"),
        ("build", {}, -32012, ""),
        ("nothing", AROUND, -32012, ""),
        ("deploy", {}, -32010, ""),
        ("build-s", {"env": {"PATH": ""}}, -32010, ""),
        ("show", AROUND, -32602, ""),
        ("image", {}, -32011, ""),
        ("mark", {"args": [str(mark)]}, -32603, "Maximum number of concurrent jobs (1) reached"),
    ]
    found = [refusal(dela, "task_start", unique_name=name, **given) for name, given, *_ in calls]
    running = [each["pid"] for each in dela.call("status")["running"]]
    dela.call("task_stop", pid=pid, grace_period=0)

    assert [code for *_, code, _ in calls] == [each.code for each in found]
    for (*_, words), each in zip(calls, found, strict=True):
        assert each.message.startswith(words)
    assert ([pid], False) == (running, mark.exists())
