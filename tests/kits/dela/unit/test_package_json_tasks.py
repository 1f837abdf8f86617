"""The scripts of a package.json, with the package manager that the project chooses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ralphgen.kits.dela.server.formats.scripts import package_json_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

if TYPE_CHECKING:
    from ralphgen.kits.dela.server.task import Task

PROJECT = Path(__file__).parents[4] / "fixtures" / "dela" / "project"
NPM = shutil.which("npm")


def found(folder: Path, package: object = None, *others: str) -> list[Task]:
    """Return the tasks of a package.json next to these other files."""
    if package is not None:
        text = package if isinstance(package, str) else json.dumps(package)
        (folder / "package.json").write_text(text, encoding="utf-8")
    for name in others:
        (folder / name).touch()
    real = os.path.realpath(folder)
    return list(package_json_tasks(Folder(real, real)))


def test_each_script_is_a_task_in_the_order_of_the_file(tmp_path: Path) -> None:
    scripts = {"test": " node\n --test ", "pretest": "true", "a b": "c", "no": "", "three": 3}
    tasks = found(tmp_path, {"scripts": scripts}, "package-lock.json")

    assert [
        ("test", ("npm", "run", "test"), "node --test"),
        ("pretest", ("npm", "run", "pretest"), "true"),
        ("a b", ("npm", "run", "a b"), "c"),
        ("no", ("npm", "run", "no"), None),
    ] == [(task.name, task.argv, task.description) for task in tasks]
    assert {os.path.realpath(tmp_path / "package.json")} == {task.path for task in tasks}


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ({"package.json": '{"packageManager": "yarn@4.0.0"}'}, "yarn"),
        ({"package.json": '{"devEngines": {"packageManager": {"name": "bun"}}}'}, "bun"),
        ({"package.json": "{"}, "npm"),
        ({"packages/.git": "", "pnpm-lock.yaml": ""}, "npm"),
    ],
)
def test_a_package_of_a_workspace_has_the_manager_of_the_workspace(
    tmp_path: Path, around: dict[str, str], expected: str
) -> None:
    inner = tmp_path / "packages/web"
    inner.mkdir(parents=True)
    for name, text in around.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (inner / "package.json").write_text('{"scripts": {"a": "b"}}', encoding="utf-8")
    (task,) = package_json_tasks(Folder(os.path.realpath(inner), os.path.realpath(tmp_path)))

    assert expected == task.runner


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"package.yaml": "scripts:\n  a: b\n", "pnpm-lock.yaml": ""}, ["a"]),
        ({"package.yaml": "packageManager: pnpm@9\nscripts: {a: b, 3: c}\n"}, ["a", "3"]),
        (
            {
                "package.json5": "{scripts: {a: 'b'}}",
                "package.yaml": "scripts: {c: d}",
                "pnpm-lock.yaml": "",
            },
            ["a"],
        ),
        ({"package.yaml": "scripts: {a: b}\n"}, []),
        ({"package.yaml": "scripts: {a: b}\n", "yarn.lock": ""}, []),
    ],
)
def test_pnpm_has_two_more_forms_of_a_package(
    tmp_path: Path, files: dict[str, str], names: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert names == [task.name for task in found(tmp_path)]


@pytest.mark.parametrize(
    ("others", "field", "expected"),
    [
        (["package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb"], "bun@1", "npm"),
        (["npm-shrinkwrap.json", "yarn.lock"], None, "npm"),
        (["pnpm-lock.yaml", "bun.lockb"], None, "pnpm"),
        (["bun.lockb"], "npm@10.0.0", "bun"),
        (["bun.lock"], None, "bun"),
        ([], "bun", "bun"),
    ],
)
def test_a_lock_file_decides_on_the_manager_then_the_field_then_it_is_npm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[str], field: object, expected: str
) -> None:
    """Installed programs do not matter: a unique name must be the same on every machine."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "bun").touch(mode=0o755)
    (task,) = found(tmp_path, {"packageManager": field, "scripts": {"a": "b"}}, *others)

    assert (expected, (expected, "run", "a")) == (task.runner, task.argv)
    assert (("--",) if expected == "npm" else ()) == task.before_arguments


def test_a_name_like_an_option_is_a_task_for_npm_alone(tmp_path: Path) -> None:
    package = {"scripts": {"-x": "a", "--": "b"}}

    assert [(("npm", "run", "--", "-x"), ()), (("npm", "run", "--", "--"), ())] == [
        (task.argv, task.before_arguments) for task in found(tmp_path, package)
    ]
    assert not found(tmp_path, package, "yarn.lock")


def test_names_that_would_spoil_a_line_are_no_tasks(tmp_path: Path) -> None:
    names = ["", "a\nb", "c\x1b[0m", "\x00", "\u202e", "\ud800", "测试"]

    assert ["测试"] == [
        task.name for task in found(tmp_path, {"scripts": dict.fromkeys(names, "x")})
    ]


def test_without_a_package_json_there_are_no_tasks(tmp_path: Path) -> None:
    assert not found(tmp_path, None, "yarn.lock")


@pytest.mark.parametrize(
    ("text", "why"), [('{"scripts": {\n"a": b}}', "line 2: is not valid JSON: .*")]
)
def test_a_file_that_is_no_json_cannot_be_used(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=f"^{why}$"):
        found(tmp_path, text)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(NPM is None, reason="the machine has no npm")
def test_npm_itself_knows_each_script_of_the_awkward_project(tmp_path: Path) -> None:
    """A script's name reaches npm as one word, and arguments reach the script."""
    package = json.loads((PROJECT / "package.json").read_text(encoding="utf-8"))
    names = [task.name for task in found(PROJECT)]
    echoing = {"name": "echoing", "scripts": {"-x": "echo", "build prod": "echo"}}
    environment = os.environ | {"npm_config_offline": "true", "npm_config_cache": str(tmp_path)}
    answers = [
        subprocess.run(
            [*task.argv, *task.before_arguments, "--flag", "two words"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        for task in found(tmp_path, echoing)
    ]

    assert ["--flag two words"] * 2 == [answer.splitlines()[-1] for answer in answers]
    assert {"-x", "build prod", "test", "build"} <= set(names)
    assert ["two\nlines", "number"] == [name for name in package["scripts"] if name not in names]
