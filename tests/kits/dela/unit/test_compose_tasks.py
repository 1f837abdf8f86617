"""What a Compose file offers: all services together, and each by itself."""

from pathlib import Path

import pytest

from ralphgen.kits.dela.server.folder import Folder, UnreadableError
from ralphgen.kits.dela.server.formats.services import compose_tasks

COMPOSE = ("docker", "compose")


def folder(root: Path, text: str, name: str = "compose.yaml") -> Folder:
    (root / name).write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


def services(root: Path, text: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """The tasks beyond the first `up` and `down`, as (name, argv, description)."""
    tasks = list(compose_tasks(folder(root, text)))
    assert [task.name for task in tasks[:2]] == ["up", "down"]
    return [(task.name, task.argv, task.description) for task in tasks[2:]]


def test_up_and_down_come_before_the_services_in_the_order_of_the_file(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("body", "description"),
    [
        ("{image: 'postgres:16'}", "image postgres:16"),
        ("{build: ./api}", "built from ./api"),
        ("{build: {context: ./api, target: dev}}", "built from ./api"),
        ("{build: {dockerfile: D}}", "built from ."),
        ("{image: i, build: .}", "image i, built from ."),
        ("{image: 3}", "image 3"),
        ("{image: [a], build: {context: [b]}}", None),
        ("{}", None),
        ("", None),
        ("[image]", None),
    ],
)
def test_a_service_is_described_by_what_it_is_made_of(
    tmp_path: Path, body: str, description: str | None
) -> None:
    found = services(tmp_path, f"services:\n  one: {body}")

    assert [("one", (*COMPOSE, "run", "one"), description)] == found


def test_merged_keys_are_followed_and_are_no_services(tmp_path: Path) -> None:
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


def test_services_named_like_a_command_are_run_as_services(tmp_path: Path) -> None:
    found = services(tmp_path, "services: {up: {}, down: {}}")

    assert [
        ("up", (*COMPOSE, "run", "up"), None),
        ("down", (*COMPOSE, "run", "down"), None),
    ] == found


def test_names_that_compose_refuses_or_takes_for_options_are_skipped(tmp_path: Path) -> None:
    text = 'services: {"-v": {}, "": {}, "a b": {}, "a\\nb": {}, "$X": {}, 3: {}, on: {}}'

    assert ["3", "on"] == [name for name, _, _ in services(tmp_path, text)]


@pytest.mark.parametrize("text", ["services:", "services: {}", "name: x", "include: [a.yaml]"])
def test_a_project_without_services_of_its_own_starts_and_stops(tmp_path: Path, text: str) -> None:
    assert [] == services(tmp_path, text)


def test_the_file_that_compose_prefers_counts_alone(tmp_path: Path) -> None:
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
def test_no_other_file_counts(tmp_path: Path, name: str) -> None:
    assert [] == list(compose_tasks(folder(tmp_path, "services: {}", name)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no Compose file: it holds no mapping"),
        ("- services", "is no Compose file: it holds no mapping"),
        ("services: [a]", "is no Compose file: its services are no mapping"),
        ("services: 3", "is no Compose file: its services are no mapping"),
        ("a: b\nc: ]", "line 2: is not YAML"),
    ],
)
def test_a_file_that_is_no_compose_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        list(compose_tasks(folder(tmp_path, text)))
