"""The generated folder after kills, full disks and rivals: real processes, killed for real."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import output_programs
import pytest
from output_programs import (
    BIG,
    NEW,
    OLD,
    OWN,
    die_in_the_middle_of_a_file,
    kill_everywhere,
    lay,
    list_unflushed,
    rival,
    tree,
    write_as_rival,
    write_to_a_full_disk,
    write_with_small_files,
    write_without_rights,
)

import ralphgen
from ralphgen.emit.write import Drift, compare, finish_interrupted, stage, write
from ralphgen.files import interrupted

pytestmark = pytest.mark.slow


def started(
    program: Callable[..., object], *arguments: object, before: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """Start one of the programs as a separate process."""
    argv = [*before, sys.executable, output_programs.__file__, program.__name__]
    return subprocess.Popen(
        [*argv, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(Path(ralphgen.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    program: Callable[..., object], *arguments: object, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    with started(program, *arguments, before=before) as process:
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_write_killed_at_any_step_leaves_the_old_or_a_resumable_tree(
    tmp_path: Path, stride: int
) -> None:
    driver = run(kill_everywhere, tmp_path, stride)
    assert (0, "") == (driver.returncode, driver.stderr)
    seen = {"old": 0, "half": 0, "new": 0}
    for folder in sorted(tmp_path.iterdir()):
        if interrupted(folder):
            seen["half"] += 1
            again = tmp_path / "again"
            shutil.copytree(folder, again)
            write(again, OLD)
            assert OLD | OWN == tree(again), folder.name
            shutil.rmtree(again)
            assert finish_interrupted(folder)
            assert NEW | OWN == tree(folder), folder.name
        found = tree(folder)
        seen["new" if found == NEW | OWN else "old"] += 1
        assert found in (OLD | OWN, NEW | OWN), folder.name
        write(folder, NEW)
        assert NEW | OWN == tree(folder), folder.name
        assert Drift(unknown=("dela/",)) == compare(folder, NEW)
        assert not interrupted(folder)
        assert [] == sorted(folder.glob(".[nc]*")), folder.name
        assert [] == list(folder.rglob("*.pyc")), folder.name
        assert not (folder / "gone").exists(), folder.name
        assert ["own.txt"] == [path.name for path in (folder / "dela").iterdir()]

    assert min(seen.values()) > 10 / stride, seen


def test_everything_is_flushed_before_the_point_of_no_return(tmp_path: Path) -> None:
    folder = lay(tmp_path / "mcp")

    found = json.loads(run(list_unflushed, folder).stdout)

    assert {"staged": 12, "missed": []} == found


def test_a_write_killed_in_the_middle_of_a_file_leaves_the_old_tree(tmp_path: Path) -> None:
    folder = lay(tmp_path / "mcp")

    assert -signal.SIGXFSZ == run(die_in_the_middle_of_a_file, folder).returncode

    assert 65536 == (folder / ".new/runtime/big.py").stat().st_size
    assert OLD | OWN == tree(folder)
    write(folder, BIG)
    assert BIG | OWN == tree(folder)
    assert not (folder / ".new").exists()


def test_a_file_that_cannot_be_written_whole_leaves_the_old_tree(tmp_path: Path) -> None:
    folder = lay(tmp_path / "mcp")

    done = run(write_with_small_files, folder)

    assert 1 == done.returncode
    assert (
        f'the files in "{folder}" cannot be written: file too large\n'
        "hint: free disk space, then run the command again; nothing was changed\n"
    ) == done.stderr
    assert OLD | OWN == tree(folder)
    assert not (folder / ".new").exists()
    assert not (folder / "runtime").exists()


def test_a_full_disk_leaves_the_old_tree(tmp_path: Path) -> None:
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    able = shutil.which("unshare") and not subprocess.run([*alone, "true"], check=False).returncode
    if not able:
        pytest.skip("a disk cannot be mounted for one process here")

    done = run(write_to_a_full_disk, tmp_path, before=alone)

    assert OLD | OWN == json.loads(done.stdout)
    assert "cannot be written: no space left on device\nhint: free disk space" in done.stderr
    assert 1 == done.returncode


def open_to_all(folder: Path) -> None:
    """Let every user change the folder and all below it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A generated folder that every user can reach and change, unlike `tmp_path`."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = lay(Path(place) / "mcp")
        open_to_all(folder)
        yield folder


def test_a_user_with_rights_of_root_or_without_can_write(shared_folder: Path) -> None:
    """Shows that the next tests fail to write for the reason that they name."""
    assert (0, "") == ((done := run(write_without_rights, shared_folder)).returncode, done.stderr)
    assert NEW | OWN == tree(shared_folder)


@pytest.mark.parametrize("locked", [".", "ralph", "dela/deep"])
def test_a_folder_without_the_right_to_write_is_found_before_anything_moves(
    shared_folder: Path, locked: str
) -> None:
    (shared_folder / locked).chmod(0o555)

    done = run(write_without_rights, shared_folder)

    assert 1 == done.returncode
    assert f'"{shared_folder}" cannot be written: permission denied at "' in done.stderr
    assert f'"{shared_folder / locked}' in done.stderr
    assert "\nhint: check the permissions" in done.stderr
    assert OLD | OWN == tree(shared_folder)
    assert not interrupted(shared_folder)


def test_a_broken_write_that_cannot_be_finished_yet_says_how_to(shared_folder: Path) -> None:
    stage(shared_folder, {path: text.encode() for path, text in NEW.items()})
    open_to_all(shared_folder)
    (shared_folder / "ralph").chmod(0o555)

    done = run(write_without_rights, shared_folder)

    assert 1 == done.returncode
    assert f'"{shared_folder}" are only partly written: permission denied at "' in done.stderr
    assert f'"{shared_folder}/.commit/ralph/tasks.py"' in done.stderr
    assert 'then run "ralphgen regen" to finish\n' in done.stderr
    assert interrupted(shared_folder)
    (shared_folder / "ralph").chmod(0o755)
    assert finish_interrupted(shared_folder)
    assert NEW | OWN == tree(shared_folder)


def test_a_folder_that_cannot_be_looked_into_is_a_sentence(shared_folder: Path) -> None:
    shared_folder.chmod(0o600)

    done = run(write_without_rights, shared_folder)

    assert 1 == done.returncode
    assert f'the files in "{shared_folder}" cannot be written: permission denied' in done.stderr
    assert "Traceback" not in done.stderr


def test_rival_writers_leave_the_whole_tree_of_one_of_them(tmp_path: Path) -> None:
    names = ["ann", "bob", "cai", "dee", "eve"]
    rivals = [started(write_as_rival, tmp_path, name) for name in names]
    said = [process.communicate(timeout=60)[1] for process in rivals]

    assert [""] * len(names) == said
    assert [0] * len(names) == [process.returncode for process in rivals]
    assert tree(tmp_path) in [rival(name, 2) for name in names]
    assert ["ralph"] == [
        path.name for path in tmp_path.iterdir() if path.is_dir() and path.name not in names
    ]
