"""Workflow files of GitHub Actions as tasks of act."""

from pathlib import Path

import pytest

from ralphgen.kits.dela.server.formats.services import workflow_tasks
from ralphgen.kits.dela.server.task import Folder, unchanged

JOBS = "on: push\njobs: {a: {steps: []}}\n"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def folder(root: Path, files: dict[str, str]) -> Folder:
    write(root, **files)
    return Folder(str(root), str(root))


def test_each_workflow_file_is_a_task_for_this_file(tmp_path: Path) -> None:
    """Naming only the folder would have act run all of them."""
    names = [
        ".github/workflows/a.yml",
        ".github/workflows/b c.yaml",
        "workflow.yml",
        "workflow.yaml",
        ".github/workflow.yml",
        ".github/workflow.yaml",
        "workflows/w.yml",
        "custom/workflows/c.yml",
        ".gitlab/workflows/g.yml",
    ]

    tasks = list(workflow_tasks(folder(tmp_path, dict.fromkeys(reversed(names), JOBS))))

    assert [(Path(name).stem, ("act", "-W", name), "act") for name in names] == [
        (task.name, task.argv, task.runner) for task in tasks
    ]
    assert [str((tmp_path / name).resolve()) for name in names] == [task.path for task in tasks]


@pytest.mark.parametrize(
    ("line", "description"),
    [
        ("name: Build and test", "Build and test"),
        ("name: |\n  two\n  lines\n", "two lines"),
        ("name: on", "on"),
        ("name: ''", None),
        ("name: [a]", None),
        ("", None),
    ],
)
def test_name_of_a_workflow_describes_it(
    tmp_path: Path, line: str, description: str | None
) -> None:
    root = folder(tmp_path, {".github/workflows/ci.yml": f"{line}\n{JOBS}"})

    assert [("ci", description)] == [(task.name, task.description) for task in workflow_tasks(root)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a workflow: it has no jobs"),
        ("on: push", "is not a workflow: it has no jobs"),
        ("jobs: {}", "is not a workflow: it has no jobs"),
        ("jobs: [a]", "is not a workflow: it has no jobs"),
        ("jobs:", "is not a workflow: it has no jobs"),
        ("- jobs", "is not a workflow: it has no jobs"),
        ("a: ]", "line 1: is not valid YAML"),
    ],
)
def test_file_without_jobs_is_reported(tmp_path: Path, text: str, why: str) -> None:
    root = folder(tmp_path, {".github/workflows/a.yml": text, ".github/workflows/b.yml": JOBS})

    assert ["b"] == [task.name for task in workflow_tasks(root)]
    assert [(str(tmp_path / ".github/workflows/a.yml"), why)] == [
        (path, words[: len(why)]) for path, words in root.problems
    ]


def test_files_of_one_stem_are_two_tasks(tmp_path: Path) -> None:
    root = folder(tmp_path, {".github/workflows/ci.yml": JOBS, "workflows/ci.yml": JOBS})

    assert ["ci", "ci"] == [task.name for task in workflow_tasks(root)]


def test_other_files_are_not_workflows(tmp_path: Path) -> None:
    ignored = ["a.txt", ".hidden.yml", " .yml", "a\nb.yml"]
    root = folder(tmp_path, {f".github/workflows/{name}": "" for name in ignored})

    assert [] == [task.name for task in workflow_tasks(root)]
    assert [] == root.problems


@pytest.mark.parametrize("name", [".github/workflows/a.yml", "workflow.yaml", "workflows/a.yml"])
def test_new_workflow_is_noticed(tmp_path: Path, name: str) -> None:
    root = Folder(str(tmp_path), str(tmp_path))
    assert [] == list(workflow_tasks(root))

    write(tmp_path, **{name: JOBS})

    assert not unchanged(root.stamps)
