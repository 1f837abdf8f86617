"""Every task of a folder has a unique name, the same on every machine."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.task import Task, find_instance, find_task, name_tasks, parts_of

RUNNERS = ("make", "npm", "poetry", "poe", "sh", "task", "turbo", "mvn", "docker compose", "just")
NAMES = ("a", "a-m", "a-mak", "a-make", "a-make1", "a-m-m", "a-p", "a-d", "a-s", "a-", "-", "A")


def task(name: str, runner: str = "make", path: str = "", command: str = "") -> Task:
    argv = (runner, *([command] if command else ["run", name]))
    return Task(name, runner=runner, argv=argv, path=path or f"/p/{runner}")


def named(*found: tuple[str, ...]) -> list[str]:
    """Return the unique names of tasks, each a tuple of name, runner and file."""
    return [one.unique_name for one in name_tasks([task(*facts) for facts in found])]


def found_by(name: str, tasks: Sequence[Task]) -> tuple[str | None, list[str]]:
    """Return the runner of the named task, and the candidates for the name."""
    one, candidates = find_task(tasks, name)
    return one.runner if one else None, candidates


@pytest.mark.parametrize(
    ("pattern", "name", "parts"),
    [
        ("a:*", "a:b", ["b"]),
        ("a:*", "a:", []),
        ("a:*", "b:a:b", []),
        ("*:z", "a:z:z", ["a:z"]),
        ("*:z", "a:zz", []),
        ("a-*-*", "a-1-2-3", ["1", "2-3"]),
        ("*", "x", ["x"]),
        ("*" * 60 + "y", "x" * 60_000, []),
        ("a", "a", []),
    ],
)
def test_a_pattern_fits_where_each_star_stands_for_something(
    pattern: str, name: str, parts: list[str]
) -> None:
    assert parts == parts_of(pattern, name)


def test_a_name_that_fits_two_patterns_means_neither() -> None:
    both = [task("a:*", "task"), task("*:b", "task"), task("*", "make")]
    found, meant = find_instance(both, "a:b")

    assert (None, ["a:*", "*:b"]) == (found, meant)
    assert (None, []) == find_instance(both, "c")


def test_each_of_several_tasks_gets_the_letter_of_its_runner() -> None:
    runners = ("make", "npm", "uv", "poetry", "mvn", "gradle")
    tests: list[tuple[str, ...]] = [("test", runner) for runner in runners]
    tests += [("test", "gradle", "/p/other"), ("test", "travis"), ("test", "just")]

    assert [
        "test-m",
        "test-n",
        "test-u",
        "test-p",
        "test-mvn",
        "test-g",
        "test-gra",
        "test-t",
        "test-j",
    ] == named(*tests)


def test_letters_become_three_then_one_more_each_then_the_whole_with_numbers() -> None:
    tests = [("t", "poetry", f"/p/{at}") for at in range(7)]

    assert ["t-p", "t-poe", "t-poet", "t-poetr", "t-poetry", "t-poetry1", "t-poetry2"] == named(
        *tests
    )


@pytest.mark.parametrize(
    ("runner", "names"),
    [
        ("sh", ["t-s", "t-sh", "t-sh1", "t-sh2"]),
        ("poe", ["t-p", "t-poe", "t-poe1", "t-poe2"]),
        ("docker compose", ["t-d", "t-doc", "t-dock", "t-docke"]),
    ],
)
def test_a_short_or_a_spaced_runner_makes_a_name_without_a_space(
    runner: str, names: list[str]
) -> None:
    assert names == named(*(("t", runner, f"/p/{at}") for at in range(4)))


def test_a_made_name_gives_way_to_the_name_of_a_real_task() -> None:
    """A target "build-m" next to an ambiguous "build" produced two tasks of one name (R9)."""
    assert ["build-mak", "build-m", "build-npm", "build-n"] == named(
        ("build",), ("build-m",), ("build", "npm"), ("build-n", "npm")
    )


def test_what_one_file_and_one_command_define_twice_is_one_task() -> None:
    twice = [task("run", "gradle", command="run"), task("run", "gradle", command="run")]
    twice[1].description = "Runs the program"
    tasks = name_tasks(twice)

    assert [("run", "Runs the program")] == [(one.unique_name, one.description) for one in tasks]


class TestFinding:
    """A client finds a task by its listed name, or by an unambiguous one."""

    TASKS = name_tasks(
        [task("test"), task("test", "mvn"), task("lint", "docker compose"), task("lint-m", "npm")]
    )

    @pytest.mark.parametrize(
        ("name", "runner"),
        [
            ("test-m", "make"),
            ("test-mvn", "mvn"),
            ("test-mv", "mvn"),
            ("test-make", "make"),
            ("lint", "docker compose"),
            ("lint-d", "docker compose"),
            ("lint-dockerc", "docker compose"),
            ("lint-m", "npm"),
            ("lint-m-npm", "npm"),
        ],
    )
    def test_a_name_means_one_task(self, name: str, runner: str) -> None:
        assert (runner, []) == found_by(name, self.TASKS)

    @pytest.mark.parametrize(
        "name", ["", "-", "test-", "test-x", "test-makes", "lint-n", "Lint", "lint-D", "x", "m"]
    )
    def test_a_name_means_none(self, name: str) -> None:
        assert (None, []) == found_by(name, self.TASKS)

    def test_a_name_that_several_bear_means_none_and_tells_them(self) -> None:
        assert (None, ["test-m", "test-mvn"]) == found_by("test", self.TASKS)

    def test_a_prefix_that_fits_two_means_none(self) -> None:
        tasks = name_tasks([task("t-p"), task("t", "poetry"), task("t", "poe")])

        assert (None, []) == found_by("t-po", tasks)


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(RUNNERS), st.sampled_from(["/a", "/b"])),
        max_size=30,
    )
)
def test_names_are_unique_and_depend_on_the_list_alone(found: list[tuple[str, str, str]]) -> None:
    tasks = name_tasks([task(*facts) for facts in found])
    names = [one.unique_name for one in tasks]
    plain = [one.name for one in tasks]

    assert list(dict.fromkeys(found)) == [(one.name, one.runner, one.path) for one in tasks]
    assert len({*names}) == len(names)
    assert names == named(*found)
    assert names == [one.unique_name for one in name_tasks(tasks)]
    for one in tasks:
        assert (one, []) == find_task(tasks, one.unique_name)
        assert plain.count(one.name) > 1 or one.name == one.unique_name
        assert plain.count(one.name) < 2 or one.unique_name not in plain
        assert " " not in one.unique_name.removeprefix(one.name)
