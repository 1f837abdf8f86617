"""The tasks of a Compose file: all services together, and each separately."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from real_runners import PLACES, needs

from ralphgen.kits.dela.server.formats.services import compose_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

COMPOSE = ("docker", "compose")


def folder(root: Path, text: str, name: str = "compose.yaml") -> Folder:
    (root / name).write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


def services(root: Path, text: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """Return the tasks after the first `up` and `down`, as (name, argv, description)."""
    tasks = list(compose_tasks(folder(root, text)))
    assert [task.name for task in tasks[:2]] == ["up", "down"]
    return [(task.name, task.argv, task.description) for task in tasks[2:]]


def test_up_and_down_precede_the_services_in_file_order(tmp_path: Path) -> None:
    tasks = list(compose_tasks(folder(tmp_path, "services: {web: {image: w}, db: {image: d}}")))

    assert [
        ("up", (*COMPOSE, "up"), "create and start all services"),
        ("down", (*COMPOSE, "down"), "stop and remove all services"),
        ("web", (*COMPOSE, "run", "web"), "image w"),
        ("db", (*COMPOSE, "run", "db"), "image d"),
    ] == [(task.name, task.argv, task.description) for task in tasks]
    assert {("docker compose", str((tmp_path / "compose.yaml").resolve()))} == {
        (task.runner, task.path) for task in tasks
    }


def test_merged_keys_are_followed(tmp_path: Path) -> None:
    text = """
x-services: &shared {one: {image: shared}, two: {image: two}}
x-body: &body {image: base}
services:
  <<: *shared
  one: {<<: *body}
  three: {<<: [{image: first}, *body]}
"""
    found = [(name, description) for name, _, description in services(tmp_path, text)]

    assert [("one", "image base"), ("two", "image two"), ("three", "image first")] == found


def test_only_the_preferred_file_counts(tmp_path: Path) -> None:
    names = [
        "compose.yaml",
        "compose.yml",
        "docker-compose.yml",
        "docker-compose.yaml",
        "docker-compose.a.yaml",
        "docker-compose.b.yml",
    ]
    for name in names:
        folder(tmp_path, "services: {}", name)
    found = []
    for name in names:
        tasks = list(compose_tasks(Folder(str(tmp_path), str(tmp_path))))
        found.append((Path(tasks[0].path).name, tasks[0].argv))
        (tmp_path / name).unlink()

    assert [(name, (*COMPOSE, "up")) for name in names[:4]] == found[:4]
    assert [(name, (*COMPOSE, "-f", name, "up")) for name in names[4:]] == found[4:]


@pytest.mark.parametrize("name", ["docker-compose.txt", "my-docker-compose.a.yml", "compose.a.yml"])
def test_other_file_names_do_not_count(tmp_path: Path, name: str) -> None:
    assert [] == list(compose_tasks(folder(tmp_path, "services: {}", name)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a Compose file: it is empty"),
        ("---\n", "is not a Compose file: it must be a mapping"),
        ("- services", "is not a Compose file: it must be a mapping"),
        ("services: [a]", "is not a Compose file: its services must be a mapping"),
        ("services: 3", "is not a Compose file: its services must be a mapping"),
        ("a: b\nc: ]", "line 2: is not valid YAML"),
    ],
)
def test_invalid_compose_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        list(compose_tasks(folder(tmp_path, text)))


def written(root: Path, files: Mapping[str, str]) -> Folder:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Folder(str(root.resolve()), str(root.resolve()))


def service(*names: str) -> str:
    return "services:\n" + "".join(f"  {name}: {{image: {name}}}\n" for name in names)


OVERRIDES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)
INCLUDES: dict[str, tuple[dict[str, str], list[str]]] = {
    "no override": ({"compose.yml": service("db")}, ["db"]),
    "override": (
        {"compose.yml": service("db"), "compose.override.yml": service("mail", "db")},
        ["db", "mail"],
    ),
    "override of an older name": (
        {"docker-compose.yml": service("db"), "compose.override.yaml": service("mail")},
        ["db", "mail"],
    ),
    "variable file": (
        {
            ".env": "# files\nexport COMPOSE_FILE='b.yaml:a.yaml' # both\n",
            "compose.yaml": service("no"),
            "compose.override.yaml": service("neither"),
            "a.yaml": service("a"),
            "b.yaml": service("b"),
        },
        ["b", "a"],
    ),
    "separator": (
        {
            ".env": "COMPOSE_PATH_SEPARATOR=;\nCOMPOSE_FILE=a.yaml;b.yaml\n",
            "a.yaml": service("a"),
            "b.yaml": service("b"),
        },
        ["a", "b"],
    ),
    "variable in a variable": (
        {".env": 'STAGE=dev\nCOMPOSE_FILE="${STAGE}.yaml"\n', "dev.yaml": service("dev")},
        ["dev"],
    ),
    "files of another folder": (
        {
            ".env": "COMPOSE_FILE=infra/compose.yaml\n",
            "infra/compose.yaml": "include: ['more/${WHICH}.yaml']\n" + service("a"),
            "infra/.env": "WHICH=b\n",
            "infra/more/b.yaml": service("b"),
        },
        ["a", "b"],
    ),
    "value of several lines": (
        {
            ".env": "X='a\nCOMPOSE_FILE=a.yaml\n'\n",
            "a.yaml": service("a"),
            "compose.yaml": service("b"),
        },
        ["b"],
    ),
    "default within a default": (
        {
            ".env": "D='$$sub'\n",
            "compose.yaml": "include: ['${X:-${Y:-${D}}}/a.yaml']\n" + service("web"),
            "$$sub/a.yaml": service("a"),
        },
        ["web", "a"],
    ),
    "several documents": (
        {
            "compose.yaml": f"{service('web', 'db')}---\n"
            "include: [a.yaml]\nservices: {api: {image: api}}\n",
            "a.yaml": f"{service('a')}---\n{service('b')}",
        },
        ["web", "db", "api", "a", "b"],
    ),
    "empty override and include": (
        {
            "compose.yaml": "include: [a.yaml]\n" + service("web"),
            "compose.override.yaml": "# for you\n",
            "a.yaml": "",
        },
        ["web"],
    ),
    "short include": (
        {"compose.yaml": "include: [a/a.yaml]\n" + service("web"), "a/a.yaml": service("a")},
        ["web", "a"],
    ),
    "include only": ({"compose.yaml": "include: [a.yaml]\n", "a.yaml": service("a")}, ["a"]),
    "long include": (
        {
            "compose.yaml": "include:\n- path: a.yaml\n- {path: [b.yaml, c.yaml]}\n",
            "a.yaml": service("a"),
            "b.yaml": service("b"),
            "c.yaml": service("c", "b"),
        },
        ["a", "b", "c"],
    ),
    "include of an include": (
        {
            "compose.yaml": "include: [a/one.yaml]\n",
            "a/one.yaml": "include: [two/two.yaml]\n" + service("one"),
            "a/two/two.yaml": service("two"),
        },
        ["one", "two"],
    ),
    "folder of an include": (
        {
            "compose.yaml": "include: [{path: a/one.yaml, project_directory: b}]\n",
            "a/one.yaml": "include: [two.yaml]\n" + service("one"),
            "b/two.yaml": service("two"),
        },
        ["one", "two"],
    ),
    "variables of an include": (
        {
            "compose.yaml": "include:\n- {path: a/one.yaml, env_file: vars.env}\n- a/three.yaml",
            "vars.env": "NEXT=two\n",
            "a/.env": "NEXT=four\n",
            "a/one.yaml": "include: ['${NEXT}.yaml']\n",
            "a/two.yaml": service("two"),
            "a/three.yaml": "include: ['${NEXT:-none}.yaml', '${OTHER-five}.yaml']",
            "a/four.yaml": service("four"),
            "a/five.yaml": service("five"),
        },
        ["two", "four", "five"],
    ),
    "include of an override": (
        {
            "compose.yaml": service("web"),
            "compose.override.yaml": "include: [a.yaml]\n",
            "a.yaml": service("a"),
        },
        ["web", "a"],
    ),
}


@pytest.mark.parametrize("case", INCLUDES)
def test_services_of_all_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.delenv("COMPOSE_FILE", raising=False)
    files, names = INCLUDES[case]
    root = written(tmp_path, files)
    tasks = list(compose_tasks(root))

    assert [] == root.problems
    assert ["up", "down", *names] == [task.name for task in tasks]
    assert {(*COMPOSE, "run", name) for name in names} == {task.argv for task in tasks[2:]}


@pytest.mark.slow
@needs("docker-compose")
@pytest.mark.parametrize("case", INCLUDES)
def test_compose_lists_the_same_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.delenv("COMPOSE_FILE", raising=False)
    files, names = INCLUDES[case]
    written(tmp_path, files)
    command = [str(shutil.which("docker-compose", path=PLACES)), "config", "--services"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert sorted(names) == sorted(done.stdout.split())


def test_service_belongs_to_the_first_file_and_is_described_by_all(tmp_path: Path) -> None:
    base = "services: {web: {image: old, build: {context: ./web}}, db: {image: d}}"
    more = "services: {web: {image: new, build: {target: dev}}, db: {build: ./db}}"
    found = list(compose_tasks(written(tmp_path, {"compose.yaml": base, OVERRIDES[0]: more})))

    assert [("image new, built from ./web"), ("image d, built from ./db")] == [
        task.description for task in found[2:]
    ]
    assert {"compose.yaml"} == {Path(task.path).name for task in found}


def test_environment_precedes_the_variable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: service(name.partition(".")[0]) for name in ("a.yaml", "b.yaml", "c.yaml")}
    root = written(tmp_path, {**files, ".env": "COMPOSE_FILE=a.yaml\n", "compose.yaml": ""})

    def names() -> list[str]:
        return [task.name for task in compose_tasks(Folder(root.path, root.path))][2:]

    assert ["a"] == names()
    monkeypatch.setenv("COMPOSE_FILE", f"b.yaml{os.pathsep}c.yaml")
    assert ["b", "c"] == names()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("include: [../out.yaml]", "which is outside the project"),
        ("include: [/etc/compose.yaml]", "which is outside the project"),
        ("include: [link.yaml]", "which is outside the project"),
        ("include: [{path: folder/out.yaml}]", "which is outside the project"),
        ("include: ['https://example.com/a.git']", "which is outside the project"),
        ("include: ['git@example.com:a/b']", "which is outside the project"),
        ("include: ['oci://example.com/a']", "which is outside the project"),
        ("include: [missing.yaml]", "which does not exist"),
        ("include: [compose.yaml]", "which includes it again"),
        ("include: [back.yaml]", "which includes it again"),
        ("include: [broken.yaml]", "is not a Compose file: it must be a mapping"),
    ],
)
def test_unusable_include_is_reported(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "out.yaml").write_text(service("stolen"), encoding="utf-8")
    project = tmp_path / "project"
    files = {"back.yaml": "include: [compose.yaml]", "broken.yaml": "- a", "a.yaml": service("a")}
    root = written(project, {**files, "compose.yaml": f"{text}\nservices: {{web: }}"})
    (project / "link.yaml").symlink_to("../out.yaml")
    (project / "folder").symlink_to("..")

    assert ["up", "down", "web"] == [task.name for task in compose_tasks(root)]
    assert 1 == len(root.problems)
    assert root.problems[0][1].endswith(why)


@pytest.mark.parametrize("name", ["../out.yaml", "/etc/passwd", "missing.yaml", ""])
def test_unusable_file_of_the_variable_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "out.yaml").write_text(service("stolen"), encoding="utf-8")
    files = {".env": f"COMPOSE_FILE=a.yaml:{name}\n", "a.yaml": service("a")}
    root = written(tmp_path / "project", files)

    assert ["up", "down", "a"] == [task.name for task in compose_tasks(root)]
    assert 1 == len(root.problems)
