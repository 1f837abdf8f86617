"""The jobs of a .travis.yml, which cannot be run here."""

from pathlib import Path

import pytest

from ralphgen.kits.dela.server.formats.services import travis_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError


def folder(root: Path, text: str) -> Folder:
    (root / ".travis.yml").write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("language: python", [("travis", None)]),
        ("", [("travis", None)]),
        ("script: make test", [("travis", "make test")]),
        ("script: [make, 'make\n  test', {a: b}, '']", [("travis", "make && make test")]),
        (
            "script: all\njobs: {include: [{name: lint, script: ruff}, {name: test}]}",
            [("lint", "ruff"), ("test", "all")],
        ),
        ("matrix: {include: [{name: old}, {env: A=1}]}", [("old", None), ("job-2", None)]),
        ("jobs: [{name: a}, {name: 3}]", [("a", None), ("3", None)]),
        ("jobs: {build: {script: b}, on: {}}", [("build", "b"), ("on", None)]),
        ("jobs: {include: [{name: a, script: x}, {name: a}]}", [("a", "x")]),
        (
            'jobs: {include: [text, 3, [], {name: ""}, {name: [a]}, {name: "a\\nb"}, {name: }]}',
            [("job-4", None), ("job-5", None), ("job-6", None), ("job-7", None)],
        ),
        ("jobs: {include: [], fast_finish: true, exclude: []}", [("travis", None)]),
        ("jobs: 3\nmatrix: [a]", [("travis", None)]),
        ('jobs: {"": {}, "a\\nb": {}}', [("travis", None)]),
        ("jobs: {include: {a: b}, fast_finish: true}", [("travis", None)]),
    ],
)
def test_jobs_are_listed_by_name_with_their_scripts(
    tmp_path: Path, text: str, expected: list[tuple[str, str | None]]
) -> None:
    """`include` is a keyword of Travis, not a job."""
    tasks = list(travis_tasks(folder(tmp_path, text)))

    assert expected == [(task.name, task.description) for task in tasks]
    assert {("travis", (), str((tmp_path / ".travis.yml").resolve()))} == {
        (task.runner, task.argv, task.path) for task in tasks
    }


@pytest.mark.parametrize("text", ["- a", "word", "a: ]"])
def test_file_without_a_mapping_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableError, match=r"must be a mapping|is not valid YAML"):
        list(travis_tasks(folder(tmp_path, text)))


def test_directory_without_the_file_has_no_tasks(tmp_path: Path) -> None:
    assert [] == list(travis_tasks(Folder(str(tmp_path), str(tmp_path))))
