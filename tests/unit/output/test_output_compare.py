"""Comparison of the generated folder with newly generated files: on real folders."""

import shutil
import subprocess
from pathlib import Path

import pytest
from output_trees import FACTS, NEW, OLD, tree

from ralphgen.emit.write import Drift, compare, diff, write
from ralphgen.errors import EditedError
from ralphgen.files import seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The generated folder of a project, holding `OLD`."""
    folder = tmp_path / "mcp"
    write(folder, OLD)
    return folder


def test_a_folder_that_does_not_differ_has_no_drift(folder: Path) -> None:
    assert Drift() == compare(folder, OLD)
    assert not compare(folder, OLD)
    assert "" == diff(folder, OLD)


def test_drift_names_the_kind_of_difference_of_each_file(folder: Path) -> None:
    (folder / "server.py").write_text("mine\n", encoding="utf-8")
    for extra in (
        "ralph/own.py",
        "sessions/s1/x.py",
        "__pycache__/y.py",
        ".new/z.py",
        "ralph/x.so",
    ):
        (folder / extra).parent.mkdir(parents=True, exist_ok=True)
        (folder / extra).write_text("", encoding="utf-8")

    drift = compare(folder, NEW)

    assert ("manifest.json", "ralph/tasks.py") == drift.stale
    assert ("server.py",) == drift.edited
    assert ("acm/tools.py",) == drift.missing
    assert ("dela/tools.py",) == drift.leftover
    assert ("__pycache__/", "ralph/own.py", "ralph/x.so") == drift.unknown
    assert "" == drift.hint
    assert drift.diff == diff(folder, NEW)


PATH = ("a.py",)


@pytest.mark.parametrize(
    "drift",
    [
        Drift(stale=PATH),
        Drift(edited=PATH),
        Drift(missing=PATH),
        Drift(leftover=PATH),
        Drift(unknown=PATH),
    ],
)
def test_each_kind_of_difference_is_drift(drift: Drift) -> None:
    assert drift


def test_a_folder_that_is_not_there_misses_everything(tmp_path: Path) -> None:
    assert tuple(OLD) == compare(tmp_path / "mcp", OLD).missing
    assert [] == list(tmp_path.iterdir())


def test_windows_line_ends_on_disk_are_reported_with_a_hint(folder: Path) -> None:
    for path in OLD:
        (folder / path).write_bytes(OLD[path].replace("\n", "\r\n").encode())

    drift = compare(folder, OLD)

    assert tuple(OLD) == drift.edited
    assert "line endings" in drift.hint
    assert "-one\r\n+one\n" in drift.diff
    with pytest.raises(EditedError, match="Windows line endings"):
        write(folder, OLD)


def test_the_diff_leads_from_the_folder_to_the_generated_text(folder: Path) -> None:
    (folder / "server.py").write_text("one", encoding="utf-8")

    assert """\
--- /dev/null
+++ b/acm/tools.py
@@ -0,0 +1 @@
+four
--- a/dela/tools.py
+++ /dev/null
@@ -1 +0,0 @@
-three
--- a/ralph/tasks.py
+++ b/ralph/tasks.py
@@ -1 +1 @@
-two
+2
--- a/server.py
+++ b/server.py
@@ -1 +1 @@
-one
\\ No newline at end of file
+one
""" == diff(folder, seal(NEW, FACTS) | {"manifest.json": OLD["manifest.json"]})


@pytest.mark.slow
def test_git_can_apply_the_diff(folder: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    hostile = {
        "a.py": "no end",
        "b.py": "form\x0cfeed\x85and \u2028 are no line ends\n" * 5 + "x",
        "c.py": "\r\n\r\r\n",
        "d/e.py": "".join(f"{number}\n" for number in range(50)),
    }
    write(folder, seal(hostile | {"server.py": "one"}, FACTS), force=True)
    files = seal({path: text[1:] + text[:1] for path, text in hostile.items()}, FACTS) | NEW
    patch = diff(folder, files).encode()

    subprocess.run([git, "apply", "-"], input=patch, cwd=folder, check=True)

    assert files == tree(folder)


def test_an_empty_file_that_is_missing_shows_in_the_diff(folder: Path) -> None:
    files = seal(OLD | {"empty.py": ""}, FACTS)

    assert diff(folder, files).startswith("--- /dev/null\n+++ b/empty.py\n")


def test_invalid_bytes_can_be_shown(folder: Path) -> None:
    (folder / "server.py").write_bytes(b"\xff\xfe\n")

    assert "-\\xff\\xfe\n" in diff(folder, OLD)
