"""A task can be started if the user has allowed it, and the listing agrees with a start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dela_projects import allow, allowed_names, at_home, entry, project_with, refusal, serving
from driving import Driver, connected

FILES = {
    "Makefile": """\
        include make/more.mk
        build:
        \t@echo build-m
        test:
        \t@echo test-m
        """,
    "make/more.mk": "included:\n\t@echo included\n",
    "build.sh": "#!/bin/sh\necho build-s\n",
    "test.sh": "#!/bin/sh\necho test-s\n",
    "only.sh": "#!/bin/sh\necho only\n",
}
ALL = ("build-m", "test-m", "included", "build-s", "only", "test-s")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("allowing") / "project"
    (root.parent / "proj").mkdir()
    return project_with(root, FILES)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def dela(root: Path, home: Path) -> Iterator[Driver]:
    with serving(root, home) as driver:
        yield driver


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("entries = [", "TOML"),
        ('entries = "all"\n', "entries"),
        ('{all}[[entries]]\npath = "/"\nscope = "directory"\n', "directory"),
        ('{all}[[entries]]\nscope = "Directory"\n', "path"),
        ('{all}[[entries]]\npath = "/tmp"\nscope = "Deny"\ntasks = "all"\n', "tasks"),
        ('{all}[[entries]]\npath = "here"\nscope = "Deny"\n', "absolute"),
    ],
)
def test_unclear_file_allows_nothing_and_names_the_reason(
    dela: Driver, root: Path, home: Path, text: str, why: str
) -> None:
    """Even if other entries of the file are valid."""
    path = allow(home, text.replace("{all}", entry("Directory", root)))
    answer = dela.call("list_tasks")

    assert [] == [task for task in answer["tasks"] if task["allowlisted"]]
    (error,) = answer["errors"]
    assert (str(path), True) == (error["file_path"], why in error["error"])
    assert -32010 == refusal(dela, "task_start", unique_name="only").code


class TestPlaces:
    """The first existing file counts, in its state at the time of the call."""

    def test_missing_file_allows_nothing(self, root: Path, tmp_path: Path) -> None:
        """Even without a home directory, the server starts."""
        with at_home(tmp_path / "home") as home:
            home.rmdir()
            with connected(root, kit="dela") as dela:
                assert [] == allowed_names(dela)
                assert -32010 == refusal(dela, "task_start", unique_name="only").code

                allow(home, entry("Directory", root))
                assert list(ALL) == allowed_names(dela)
