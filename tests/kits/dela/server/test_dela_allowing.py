"""A task can be started where a person has allowed it, and the listing says the same as a start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dela_projects import (
    NEW_PLACE,
    OLD_PLACE,
    allow,
    allowed_names,
    at_home,
    entry,
    project_with,
    refusal,
    serving,
)
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
OF_MAKE = ALL[:2]


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


def started(dela: Driver) -> tuple[str, ...]:
    """The tasks that a start does start, of all; the others must be refused for one reason."""
    done = []
    for name in ALL:
        if name in allowed_names(dela):
            answer = dela.call("task_start", unique_name=name, wait_for_exit_seconds=20)
            assert ("exited", f"{name}\n") == (answer["state"], answer["initial_output"])
            done.append(name)
        else:
            assert -32010 == refusal(dela, "task_start", unique_name=name).code
    return tuple(done)


Entries = list[tuple[str, ...]]
CASES: dict[str, tuple[Entries, tuple[str, ...]]] = {
    "nothing": ([], ()),
    "one file": ([("File", "Makefile")], OF_MAKE),
    "one task, not the other": ([("Task", "Makefile", "test")], ("test-m",)),
    "two tasks": ([("Task", "Makefile", "test", "build")], OF_MAKE),
    "a task by the name that only this folder gives it": ([("Task", "Makefile", "build-m")], ()),
    "a task without names": ([("Task", "Makefile")], ()),
    "a file that is a folder": ([("File", "")], ()),
    "once": ([("Once", "Makefile", "test")], ()),
    "the project": ([("Directory", "")], ALL),
    "a folder around it": ([("Directory", "..")], ALL),
    "a folder in it": ([("Directory", "make")], ("included",)),
    "a folder beside it whose name begins alike": ([("Directory", "../proj")], ()),
    "the file that defines an included task": ([("File", "make/more.mk")], ("included",)),
    "an included task in the file that includes it": ([("Task", "Makefile", "included")], ()),
    "an included task in its file": ([("Task", "make/more.mk", "included")], ("included",)),
    "a denied file": ([("Directory", ""), ("Deny", "Makefile")], ALL[2:]),
    "a denied folder": ([("Deny", "make"), ("Directory", "")], (*OF_MAKE, *ALL[3:])),
    "a denied task": ([("Directory", ""), ("Deny", "Makefile", "test")], (ALL[0], *ALL[2:])),
    "a task denied by its unique name": ([("Directory", ""), ("Deny", "", "test-s")], ALL[:5]),
    "a name denied below a folder": (
        [("Directory", ""), ("Deny", "", "test")],
        ("build-m", "included", "build-s", "only"),
    ),
    "denied in a file, allowed one by one": (
        [("Task", "Makefile", "test"), ("File", "only.sh"), ("Deny", "Makefile")],
        ("only",),
    ),
    "everything denied": ([("Directory", ""), ("Deny", "..")], ()),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_each_scope_reaches_as_far_as_it_says(
    dela: Driver, root: Path, home: Path, case: str
) -> None:
    entries, names = CASES[case]
    allow(home, *(entry(scope, root / place, *tasks) for scope, place, *tasks in entries))

    assert [*names] == allowed_names(dela)
    assert names == started(dela)


def test_the_order_of_entries_means_nothing(dela: Driver, root: Path, home: Path) -> None:
    entries = [
        entry("Deny", root / "Makefile", "test"),
        entry("Directory", root),
        entry("Task", root / "Makefile", "test"),
    ]
    for at in range(3):
        allow(home, *entries[at:], *entries[:at])

        assert [ALL[0], *ALL[2:]] == allowed_names(dela)


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
def test_a_file_that_is_unclear_allows_nothing_and_says_why(
    dela: Driver, root: Path, home: Path, text: str, why: str
) -> None:
    """Whatever else it holds: an entry that is clear, too."""
    path = allow(home, text.replace("{all}", entry("Directory", root)))
    answer = dela.call("list_tasks")

    assert [] == [task for task in answer["tasks"] if task["allowlisted"]]
    (error,) = answer["errors"]
    assert (str(path), True) == (error["file_path"], why in error["error"])
    assert -32010 == refusal(dela, "task_start", unique_name="only").code


def test_unknown_keys_and_both_ways_to_write_entries_are_taken(
    dela: Driver, root: Path, home: Path
) -> None:
    allow(home, f'version = 2\nentries = [{{path = "{root}", scope = "Directory", note = "x"}}]\n')

    assert list(ALL) == allowed_names(dela)


class TestPlaces:
    """The first file that is there counts, as it is at the moment of the call."""

    def test_without_a_file_nothing_is_allowed(self, root: Path, tmp_path: Path) -> None:
        """Also without a home: the server starts all the same."""
        with at_home(tmp_path / "home") as home:
            home.rmdir()
            with connected(root, kit="dela") as dela:
                assert [] == allowed_names(dela)
                assert -32010 == refusal(dela, "task_start", unique_name="only").code

                allow(home, entry("Directory", root))
                assert list(ALL) == allowed_names(dela)

    def test_the_old_place_counts_until_there_is_a_new_one(
        self, root: Path, tmp_path: Path
    ) -> None:
        with at_home(tmp_path / "home") as home, connected(root, kit="dela") as dela:
            (home / NEW_PLACE).parent.mkdir(parents=True)  # an empty folder is no allowlist
            allow(home, entry("File", root / "only.sh"), place=OLD_PLACE)
            assert ["only"] == allowed_names(dela)

            new = allow(home)
            assert [] == allowed_names(dela)

            new.unlink()
            assert ["only"] == allowed_names(dela)
