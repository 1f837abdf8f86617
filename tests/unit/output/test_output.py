"""The content of the generated folder after a write: on real folders."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from output_trees import FACTS, FILE, FOLDER, NEW, OLD, sealed, tree

from ralphgen.emit.write import Drift, Written, compare, finish_interrupted, write
from ralphgen.files import Files, digest, seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The generated folder of a project, holding `OLD`."""
    folder = tmp_path / "mcp"
    write(folder, OLD)
    return folder


def test_the_manifest_lists_the_sha256_of_every_other_file_and_keeps_the_facts() -> None:
    files = seal({"server.py": "é\n", "a.py": ""}, {"ralphgen": "0.1.0", "extra": [1]})

    assert ["a.py", "manifest.json", "server.py"] == list(files)
    assert files["manifest.json"].endswith("}\n")
    assert {
        "ralphgen": "0.1.0",
        "extra": [1],
        "files": {"a.py": digest(b""), "server.py": digest(b"\xc3\xa9\n")},
    } == json.loads(files["manifest.json"])
    assert files == seal(files, {"extra": [1], "ralphgen": "0.1.0"})


def test_a_first_write_makes_the_folder_in_utf8_with_line_feeds(tmp_path: Path) -> None:
    folder = tmp_path / ".ralph" / "mcp"
    files = sealed(server_py="é\n\u2028\n", ralph__tasks_py="")

    written = write(folder, files)

    assert Written(added=("manifest.json", "ralph/tasks.py", "server.py")) == written
    assert b"\xc3\xa9\n\xe2\x80\xa8\n" == (folder / "server.py").read_bytes()
    assert files == tree(folder)


def test_a_second_write_changes_differing_files_and_removes_obsolete_ones(folder: Path) -> None:
    before = (folder / "server.py").stat()

    written = write(folder, NEW)

    assert NEW == tree(folder)
    assert (
        Written(("manifest.json", "ralph/tasks.py"), ("acm/tools.py",), ("dela/tools.py",))
        == written
    )
    assert not (folder / "dela").exists()
    after = (folder / "server.py").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_writing_the_same_again_touches_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    assert Written() == write(folder, OLD)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_missing_file_comes_back(folder: Path) -> None:
    (folder / "ralph" / "tasks.py").unlink()

    assert Written(added=("ralph/tasks.py",)) == write(folder, OLD)
    assert OLD == tree(folder)


def test_only_files_of_the_old_manifest_are_removed(folder: Path) -> None:
    own = {"dela/notes.txt": "mine", "context.json": "{}", "sessions/s1/context.json": "{}"}
    for path, text in own.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")

    write(folder, NEW)

    assert NEW | own == tree(folder)


def test_no_stale_bytecode_outlives_its_module(folder: Path) -> None:
    """Two writes within a second and of equal size would otherwise run the first one's code."""
    for module in ("ralph/tasks", "dela/tools", "server"):
        cache = (folder / module).parent / "__pycache__"
        cache.mkdir(exist_ok=True)
        (cache / f"{Path(module).name}.cpython-311.pyc").write_bytes(b"")

    write(folder, NEW)

    assert ["server.cpython-311.pyc"] == [path.name for path in folder.rglob("*.pyc")]
    assert not (folder / "dela").exists()


def test_an_edit_equal_to_the_generated_text_is_not_an_obstacle(folder: Path) -> None:
    (folder / "ralph/tasks.py").write_text(NEW["ralph/tasks.py"], encoding="utf-8")

    assert "ralph/tasks.py" not in write(folder, NEW).changed
    assert NEW == tree(folder)


@pytest.mark.parametrize(("first", "second"), [(FILE, FOLDER), (FOLDER, FILE)])
def test_a_file_becomes_a_folder_and_back(tmp_path: Path, first: Files, second: Files) -> None:
    write(tmp_path, first)
    if (tmp_path / "kit").is_dir():
        (tmp_path / "kit/b/__pycache__").mkdir()
        (tmp_path / "kit/b/__pycache__/gone.cpython-311.pyc").write_bytes(b"")

    write(tmp_path, second)

    assert second == tree(tmp_path)
    assert not compare(tmp_path, second)


def test_a_module_may_change_the_case_of_its_name(tmp_path: Path) -> None:
    """Where `A.py` and `a.py` are one file, removing the old name must not take the new one."""
    write(tmp_path, sealed(Tasks_py="1\n"))

    if not (tmp_path / "tasks.py").exists():
        (tmp_path / "tasks.py").hardlink_to(tmp_path / "Tasks.py")
    before = (tmp_path / "tasks.py").stat().st_ino

    write(tmp_path, sealed(tasks_py="1\n"))

    assert sealed(tasks_py="1\n") == tree(tmp_path)
    assert before != (tmp_path / "tasks.py").stat().st_ino


def test_there_is_nothing_to_finish_in_a_whole_folder(folder: Path) -> None:
    assert not finish_interrupted(folder)
    assert not finish_interrupted(folder / "nowhere")


PATHS = ("a", "a/b.py", "a/c/d.py", "B.py", "b.py", "e/f.py", "g.py")
TREES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "1\n", "2"])).filter(
    lambda found: not any(other.startswith(f"{path}/") for path in found for other in found)
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(TREES, min_size=2, max_size=4))
def test_after_any_series_of_writes_the_folder_holds_the_last_one(trees: list[Files]) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "a.txt").write_text("mine", encoding="utf-8")
        for files in (seal(each, FACTS) for each in trees):
            write(folder, files)

            assert files | {"a.txt": "mine"} == tree(folder)
            assert Drift(unknown=("a.txt",)) == compare(folder, files)
