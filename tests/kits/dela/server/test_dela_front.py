"""No plain call loads the SDK, and reading calls load hardly anything."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from dela_projects import allow, at_home, entry
from loaded_modules import SDK, VERSIONS, Call, answers_and_modules

COSTLY = {*SDK, "asyncio", "dataclasses", "threading", "subprocess", "pathlib", "inspect"}
"""Modules that a session does not need to list make targets and scripts."""
FILES = {
    "Makefile": "build: ## Build it\n\t@echo built\n",
    "package.json": '{"scripts": {"build": "true"}}',
    "compose.yml": "",
    "hello.sh": '#!/bin/sh\necho "hello $1"\n',
    "sub/hello.sh": "#!/bin/sh\necho hello from below\n",
}
LOOKS: tuple[Call, ...] = (
    ("list_tasks", {}),
    ("list_tasks", {"runner": "make", "cwd": "sub"}),
    ("list_tasks", {"limit": 1}),
    ("status", {}),
    ("task_status", {"unique_name": "hello"}),
)
REFUSED: tuple[Call, ...] = (
    ("list_tasks", {"cwd": ".."}),
    ("list_tasks", {"limit": "one"}),
    ("task_status", {}),
    ("task_status", {"pid": 1}),
    ("task_output", {"pid": 1}),
    ("task_stop", {"pid": 1}),
    ("task_start", {}),
    ("task_start", {"unique_name": "hello", "wait_for_exit_seconds": 301}),
    ("task_begin", {}),
)
START: Call = ("task_start", {"unique_name": "hello", "args": ["you"], "wait_for_exit_seconds": 60})


@pytest.fixture(autouse=True)
def home(root: Path, tmp_path: Path) -> Iterator[None]:
    """Allow all tasks of the project as the user."""
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        yield


def loaded(root: Path, version: str, calls: Sequence[Call]) -> set[str]:
    """Return the modules that a server loads to answer all calls of a session."""
    return answers_and_modules(root, "dela", version, calls)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_read_only_session_never_loads_the_sdk(root: Path, version: str) -> None:
    assert set() == COSTLY & loaded(root, version, (*LOOKS, *REFUSED))


@pytest.mark.parametrize("version", VERSIONS)
def test_start_of_a_task_loads_more_but_not_the_sdk(root: Path, version: str) -> None:
    """The modules that start processes; the tests above would see them."""
    found = COSTLY & loaded(root, version, (*LOOKS, START))

    assert found
    assert set() == SDK & found
