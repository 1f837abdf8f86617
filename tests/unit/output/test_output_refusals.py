"""Refusals to write, so that the user's files are never lost: on real folders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from output_trees import FACTS, FILE, FOLDER, NEW, OLD, sealed, tree

from ralphgen.emit.write import Written, compare, write
from ralphgen.errors import EditedError, ProjectError
from ralphgen.files import digest, exclusive, legal, seal

CONFLICT = '{\n<<<<<<< HEAD\n  "plan": "1",\n=======\n  "plan": "2",\n>>>>>>> theirs\n}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The generated folder of a project, holding `OLD`."""
    folder = tmp_path / "mcp"
    write(folder, OLD)
    return folder


def test_hand_edits_are_named_and_kept(folder: Path) -> None:
    (folder / "server.py").write_text("mine\n", encoding="utf-8")
    (folder / "dela/tools.py").write_text("mine too\n", encoding="utf-8")
    (folder / "acm").mkdir()
    (folder / "acm/tools.py").write_text("never generated\n", encoding="utf-8")
    before = tree(folder)

    with pytest.raises(EditedError) as caught:
        write(folder, NEW)

    assert (
        '"acm/tools.py" exists, but was not generated; not overwritten\n'
        "dela/tools.py was edited by hand; not overwritten\n"
        "server.py was edited by hand; not overwritten\n"
        'hint: compare with "ralphgen check", or discard the edit with "ralphgen regen --force"'
    ) == str(caught.value)
    assert before == tree(folder)


def test_force_overwrites_and_removes_hand_edits_and_names_unknown_modules(folder: Path) -> None:
    (folder / "server.py").write_text("mine\n", encoding="utf-8")
    (folder / "dela/tools.py").write_text("mine too\n", encoding="utf-8")
    (folder / "ralph/own.py").write_text("unknown\n", encoding="utf-8")

    written = write(folder, NEW, force=True)

    assert ("ralph/own.py",) == written.unknown
    assert ("dela/tools.py",) == written.removed
    assert NEW | {"ralph/own.py": "unknown\n"} == tree(folder)


@pytest.mark.parametrize(
    "manifest",
    [
        CONFLICT,
        "",
        "[]",
        '{"files": []}',
        '{"files": {"../outside.txt": "0"}}',
        '{"files": {"server.py": 1}}',
        "[" * 100_000,
    ],
)
def test_with_an_unreadable_manifest_every_difference_counts_as_an_edit(
    folder: Path, manifest: str
) -> None:
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")

    with pytest.raises(EditedError) as caught:
        write(folder, NEW)

    assert [
        '"ralph/tasks.py" differs from the generated file, and "manifest.json" cannot be read'
    ] == [problem.text for problem in caught.value.problems]
    assert OLD | {"manifest.json": manifest} == tree(folder)
    assert ("manifest.json", "ralph/tasks.py") == compare(folder, NEW).edited

    forced = write(folder, NEW, force=True)

    assert ((), ("dela/",)) == (forced.removed, forced.unknown)
    assert NEW | {"dela/tools.py": "three\n"} == tree(folder)


def test_a_conflict_in_the_manifest_alone_is_mended_without_force(folder: Path) -> None:
    (folder / "manifest.json").write_text(CONFLICT, encoding="utf-8")

    assert Written(changed=("manifest.json",)) == write(folder, OLD)
    assert OLD == tree(folder)


@pytest.mark.parametrize("path", ["../outside.txt", "{absolute}", "sessions/s1/context.json"])
def test_a_forged_manifest_deletes_only_generated_files(folder: Path, path: str) -> None:
    path = path.format(absolute=folder.parent / "outside.txt")
    victim = folder / path
    victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_bytes(b"precious")
    manifest = json.loads(OLD["manifest.json"])
    manifest["files"][path] = digest(b"precious")
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    write(folder, NEW, force=True)

    assert b"precious" == victim.read_bytes()


@pytest.mark.parametrize("force", [False, True])
def test_a_file_of_ones_own_is_not_removed_for_a_folder(tmp_path: Path, *, force: bool) -> None:
    write(tmp_path, sealed(server_py="1\n"))
    (tmp_path / "kit").write_text("mine", encoding="utf-8")

    with pytest.raises(ProjectError, match=r'"kit" blocks "kit/a\.py"'):
        write(tmp_path, FOLDER, force=force)

    assert "mine" == (tmp_path / "kit").read_text(encoding="utf-8")


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_files_of_ones_own_is_not_removed_for_a_file(
    tmp_path: Path, *, force: bool
) -> None:
    write(tmp_path, FOLDER)
    (tmp_path / "kit/own.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(ProjectError, match=r'"kit/own\.txt" blocks "kit"'):
        write(tmp_path, FILE, force=force)

    assert FOLDER | {"kit/own.txt": "mine"} == tree(tmp_path)


@pytest.mark.parametrize(
    "linked", [".", "ralph", "ralph/tasks.py", "dela", "manifest.json", ".new", ".lock", ".commit"]
)
def test_nothing_is_written_or_removed_through_a_link(folder: Path, linked: str) -> None:
    outside = folder.parent / "outside"
    place = folder / linked
    if place.exists() and linked != ".lock":
        place.rename(outside)
    else:
        place.unlink(missing_ok=True)
        outside.mkdir()
        (outside / "precious.txt").write_text("precious", encoding="utf-8")
    place.symlink_to(outside)
    before = tree(folder.parent)

    with pytest.raises(ProjectError, match="is a link, expected a regular file or directory"):
        write(folder, NEW, force=True)

    assert before == tree(folder.parent)
    assert place.is_symlink()


def test_a_device_in_place_of_a_file_is_refused_instead_of_waited_for(folder: Path) -> None:
    (folder / "server.py").unlink()
    os.mkfifo(folder / "server.py")

    with pytest.raises(ProjectError, match=r'"server\.py" is a device'):
        compare(folder, NEW)


def test_files_without_a_manifest_or_with_a_path_outside_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'"manifest\.json" is missing'):
        write(tmp_path, {"server.py": ""})
    with pytest.raises(ValueError, match=r'"\.\./x" is not a path'):
        write(tmp_path, seal({"../x": ""}, FACTS))


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "a/", "./a", "a/../b", "a\\b", "c:a", "a\nb", ".Commit/a", "a\ud800"]
)
def test_a_path_that_could_leave_the_folder_is_illegal(path: str) -> None:
    assert not legal(path)


@pytest.mark.slow
def test_a_writer_waits_for_another_and_then_gives_up_with_a_sentence(folder: Path) -> None:
    hold = "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1]);"
    program = f"{hold} lock.acquire(); print('held', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", program, str(folder / ".lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()

        with (
            pytest.raises(ProjectError, match=r"has been writing .* for over 0\.1 s") as caught,
            exclusive(folder, seconds=0.1),
        ):
            pytest.fail("two writers at once")

        holder.communicate()
    assert caught.value.problems[0].hint.startswith("wait until it is done")
    write(folder, NEW)
    assert NEW == tree(folder)
