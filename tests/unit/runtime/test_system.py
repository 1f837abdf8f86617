"""The replacement for `os` at the start returns the same values as `os`."""

import os
import posixpath
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.runtime import system

PATHS = st.lists(st.sampled_from(["a", ".", "..", "", "b.c"]), max_size=5).map("/".join)


@given(PATHS, PATHS)
def test_paths_equal_the_paths_of_os(one: str, other: str) -> None:
    assert posixpath.join(one, other) == system.join(one, other)
    assert posixpath.join(f"/{one}", other, one) == system.join(f"/{one}", other, one)
    assert posixpath.dirname(one) == system.dirname(one)
    assert posixpath.dirname(f"/{one}") == system.dirname(f"/{one}")
    assert posixpath.basename(one) == system.basename(one)
    assert posixpath.normpath(one) == system.normpath(one)
    assert posixpath.normpath(f"/{one}") == system.normpath(f"/{one}")


def test_files_equal_the_files_of_os(tmp_path: Path) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "file").write_text("four", encoding="utf-8")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "round").symlink_to("round")
    names = ["", "file", "link", "link/below", "dangling", "round", "none/below", "folder/../file"]
    for path in (str(tmp_path / name) for name in [*names, "a\0b"]):
        for kind in ("lexists", "exists", "isdir", "isfile"):
            assert getattr(os.path, kind)(path) == getattr(system, kind)(path), (kind, path)
    for path in ("/", *(f"{tmp_path}/{name}" for name in names)):
        assert os.path.realpath(path) == system.realpath(path)

    assert 4 == system.getsize(str(tmp_path / "file"))


@pytest.mark.slow
def test_all_of_os_is_there_for_who_asks() -> None:
    """And nothing of it for who does not."""
    package = str(Path(system.__file__).parents[2])
    program = (
        f"import sys; sys.path.insert(0, {package!r}); "
        "from ralphgen.runtime.system import os; "
        "small = [os.stat('/').st_mode > 0, os.path.join('/a', 'b'), 'os' in sys.modules]; "
        "print(*small, os.path.split('/a/b'), os.environ['HOME'], 'os' in sys.modules, "
        "os.path is sys.modules['os'].path)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={"HOME": "/home"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "True /a/b False ('/a', 'b') /home True True\n" == done.stdout
