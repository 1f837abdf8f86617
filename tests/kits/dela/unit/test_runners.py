"""A runner that lists its tasks gets no input and little time, and is never the project's."""

import json
import os
import select
from pathlib import Path

import pytest

from ralphgen.kits.dela.server import runners
from ralphgen.kits.dela.server.task import Folder

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory in PATH, outside of the project."""
    path = tmp_path / "programs"
    path.mkdir()
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "project"
    path.mkdir()
    return Folder(os.path.realpath(path), os.path.realpath(path))


def write_program(folder: Path, text: str) -> None:
    path = folder / "runner"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_answer_has_code_output_and_complaint(programs: Path, folder: Folder) -> None:
    write_program(programs, 'echo "$1"; pwd -P; echo; printf "\\n no:\\t%s \\n" "$2" >&2; exit 7')
    answer = runners.query(folder, "runner", "a b", "$HOME")

    assert answer is not None
    assert 7 == answer.code
    assert f"a b\n{folder.path}\n\n" == answer.output
    assert ["no: $HOME"] == answer.complaint


def test_runner_gets_no_input(programs: Path, folder: Folder) -> None:
    """A child with the server's input would take requests of the client away (R2)."""
    write_program(programs, "cat; echo end")
    answer = runners.query(folder, "runner")

    assert answer is not None
    assert "end\n" == answer.output


def test_runner_gets_no_secrets_of_the_project(
    programs: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A justfile may run any program for its answer."""
    place = Path(folder.root) / ".ralph/mcp"
    place.mkdir(parents=True)
    config = {"config": {"postgresql": {"dsn_env": "SHOP_DSN"}}}
    (place / "project.json").write_text(json.dumps(config), encoding="utf-8")
    for name in ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "SHOP_DSN", "SHOP"):
        monkeypatch.setenv(name, f"value of {name}")
    write_program(programs, "env")
    answer = runners.query(folder, "runner")

    assert answer is not None
    lines = answer.output.splitlines()
    assert "SHOP=value of SHOP" in lines
    assert not [line for line in lines if line.startswith(("RALPH_", "SHOP_DSN"))]


def test_missing_program_gives_no_answer(programs: Path, folder: Folder) -> None:
    assert None is runners.query(folder, "runner")
    (programs / "runner").write_bytes(b"\x7fELF")
    (programs / "runner").chmod(0o755)

    assert None is runners.query(folder, "runner")


def test_program_of_the_project_never_runs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing tasks must not run files of the project."""
    place = Path(folder.path, "bin")
    place.mkdir()
    write_program(place, f"echo > {folder.path}/ran")
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}/usr/bin{os.pathsep}/bin")

    assert None is runners.query(folder, "runner")
    assert not Path(folder.path, "ran").exists()


def test_program_is_not_searched_in_the_current_directory(
    programs: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path found there would be resolved in the project."""
    write_program(programs, "echo")
    write_program(Path(folder.path), "echo > ran")
    monkeypatch.chdir(programs)
    monkeypatch.setenv("PATH", f".{os.pathsep}/usr/bin{os.pathsep}/bin")

    assert None is runners.query(folder, "runner")
    assert not Path(folder.path, "ran").exists()


def test_too_much_output_gives_no_answer(
    programs: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "LARGEST", 1 << 16)
    write_program(programs, "head -c 300000 /dev/zero")

    assert None is runners.query(folder, "runner")


def test_slow_program_is_killed_with_its_children(
    programs: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "PATIENCE", 0.7)
    pipe = programs / "alive"
    os.mkfifo(pipe)
    # The end of the pipe proves that all of its writers have ended.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_program(programs, f"exec 3> {pipe}; echo up >&3; sleep 60 & wait")

    assert None is runners.query(folder, "runner")
    assert b"up\n" == os.read(reader, 100)
    ended, _, _ = select.select([reader], [], [], 10)

    assert [reader] == ended
    assert b"" == os.read(reader, 100)
    os.close(reader)


def test_child_that_keeps_the_output_open_gives_no_answer(
    programs: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "PATIENCE", 0.3)
    write_program(programs, "sleep 60 & echo done")

    assert None is runners.query(folder, "runner")
