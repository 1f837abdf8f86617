"""The scripts and tasks of a pyproject.toml are found for uv, poetry and poe alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ralphgen.kits.dela.server.formats.scripts import pyproject_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

if TYPE_CHECKING:
    from ralphgen.kits.dela.server.task import Task

PROJECT = Path(__file__).parents[4] / "fixtures" / "dela" / "project"


def found(folder: Path, text: str | None = None) -> list[Task]:
    if text is not None:
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    real = os.path.realpath(folder)
    return list(pyproject_tasks(Folder(real, real)))


def listed(folder: Path, text: str) -> list[tuple[tuple[str, ...], str | None]]:
    return [(task.argv, task.description) for task in found(folder, text)]


def test_the_three_tables_give_tasks_of_three_runners(tmp_path: Path) -> None:
    """In the order uv, poetry, poe; within a table in that of the file."""
    text = """
        [tool.poe.tasks]
        test = "pytest"
        [tool.poetry.scripts]
        test = "a.b:c"
        [project.scripts]
        test = "a:b"
        a = "c:d"
    """
    tasks = found(tmp_path, text)

    assert [
        ("test", "uv", ("uv", "run", "test"), "python script: a:b"),
        ("a", "uv", ("uv", "run", "a"), "python script: c:d"),
        ("test", "poetry", ("poetry", "run", "test"), "python script: a.b:c"),
        ("test", "poe", ("poe", "test"), "command: pytest"),
    ] == [(task.name, task.runner, task.argv, task.description) for task in tasks]
    assert {os.path.realpath(tmp_path / "pyproject.toml")} == {task.path for task in tasks}
    assert {()} == {task.before_arguments for task in tasks}


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ('{ cmd = "a", help = "What it does\\n for whom " }', "What it does for whom"),
        ('{ script = "a:b(1)" }', "python script: a:b(1)"),
        ('{ expr = "1 + 1" }', "expression: 1 + 1"),
        ('{ ref = "other" }', "task: other"),
        (
            '{ sequence = ["a", { shell = "b" }, ["c", "d"], 3] }',
            "sequence: a, b, (2 steps), (a step)",
        ),
    ],
)
def test_a_task_of_poe_is_described_by_its_help_or_by_what_it_runs(
    tmp_path: Path, task: str, expected: str | None
) -> None:
    assert [(("poe", "a"), expected)] == listed(tmp_path, f"[tool.poe.tasks]\na = {task}\n")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [('default_array_task_type = "parallel"', ["command: x:y", "parallel: z"])],
)
def test_settings_of_poe_say_what_a_plain_task_is(
    tmp_path: Path, settings: str, expected: list[str]
) -> None:
    text = f'[tool.poe]\n{settings}\n[tool.poe.tasks]\na = "x:y"\nb = ["z"]\n'

    assert expected == [description for _, description in listed(tmp_path, text)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('{ reference = "bin/a.sh", type = "file" }', "script: bin/a.sh"),
        ('{ callable = "a:b", extras = ["c"] }', "python script: a:b"),
        ('""', None),
    ],
)
def test_a_script_is_described_by_its_entry_point(
    tmp_path: Path, script: str, expected: str | None
) -> None:
    assert [(("poetry", "run", "a"), expected)] == listed(
        tmp_path, f"[tool.poetry.scripts]\na = {script}\n"
    )


@pytest.mark.parametrize("text", ['[project]\nname = "a"\n'])
def test_without_one_of_the_tables_there_are_no_tasks(tmp_path: Path, text: str) -> None:
    assert not found(tmp_path, text)


def test_a_file_that_is_no_toml_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"^is not valid TOML: .*line 2"):
        found(tmp_path, "[project.scripts]\na = b\n")


POE = {
    "included files": (
        {
            "pyproject.toml": '[tool.poe]\ninclude = ["a.json", {path = "b.yaml", cwd = "."}]\n',
            "a.json": '{"tool": {"poe": {"tasks": {"a": "x"}}}}',
            "b.yaml": "tasks: {b: x}\ninclude: sub/c.toml\n",
            "sub/c.toml": 'include = ["d.toml", "../b.yaml"]\ntasks.c = "x"\n',
            "sub/d.toml": 'tasks.d = "x"\n',
        },
        [("a", "a.json"), ("b", "b.yaml"), ("c", "sub/c.toml"), ("d", "sub/d.toml")],
    ),
    "file of its own": (
        {
            "pyproject.toml": "[project]\n",
            "poe_tasks.toml": 'tasks.a = "x"\n',
            "poe_tasks.json": "{}",
        },
        [("a", "poe_tasks.toml")],
    ),
    "YAML file": ({"poe_tasks.yaml": "tasks: {a: x}"}, [("a", "poe_tasks.yaml")]),
    "JSON file": ({"poe_tasks.json": '{"tasks": {"a": "x"}}'}, [("a", "poe_tasks.json")]),
    "groups": (
        {"pyproject.toml": '[tool.poe.groups.g.tasks]\na = "x"\n[tool.poe.tasks]\nb = "x"\n'},
        [("b", "pyproject.toml"), ("a", "pyproject.toml")],
    ),
}


def poe_tasks(folder: Path, files: dict[str, str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the tasks with the paths of their files, and the problems."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    place = Folder(os.path.realpath(folder), os.path.realpath(folder))
    tasks = [(task.name, os.path.relpath(task.path, place.path)) for task in pyproject_tasks(place)]
    return tasks, [why for _, why in place.problems]


@pytest.mark.parametrize("case", POE)
def test_tasks_of_all_files_of_poe_are_listed(tmp_path: Path, case: str) -> None:
    files, expected = POE[case]

    assert (expected, []) == poe_tasks(tmp_path, files)


@pytest.mark.parametrize(
    ("include", "why"),
    [
        ("link.toml", 'includes "link.toml", which is outside the project'),
        ("none.toml", 'includes "none.toml", which does not exist'),
        (
            "${POE_GIT_DIR}/a.toml",
            'includes "${POE_GIT_DIR}/a.toml": only poe can resolve this file',
        ),
    ],
)
def test_an_include_of_poe_that_is_not_read_is_reported(
    tmp_path: Path, include: str, why: str
) -> None:
    (tmp_path / "out.toml").write_text('tasks.stolen = "x"\n', encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/link.toml").symlink_to("../out.toml")
    text = f'[tool.poe]\ninclude = "{include}"\n[tool.poe.tasks]\nown = "a"\n'

    assert ([("own", "pyproject.toml")], [why]) == poe_tasks(
        tmp_path / "project", {"pyproject.toml": text}
    )


def test_an_include_script_is_not_run(tmp_path: Path) -> None:
    text = '[tool.poe]\ninclude_script = "evil:tasks"\n[tool.poe.tasks]\nown = "a"\n'
    tasks, problems = poe_tasks(tmp_path, {"pyproject.toml": text, "evil.py": "open('ran', 'w')\n"})

    assert [("own", "pyproject.toml")] == tasks
    assert ["has an include_script, which is not run: its tasks are not listed"] == problems
    assert not (tmp_path / "ran").exists()
