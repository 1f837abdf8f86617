"""The same state of a project gives the same bytes, wherever, whenever and however it is run."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import lay_down
from driving import quiet, server_command
from lanes import shortened

import ralphgen
from ralphgen.emit.workflows import checked, regenerate
from ralphgen.files import Files
from ralphgen.kits.project import Project
from ralphgen.project.root import FOLDER

SOURCE = Path(ralphgen.__file__).parent.parent
PROGRAM = """
import json, os, sys
os.umask(int(sys.argv[2], 8))
sys.path.insert(0, sys.argv[3])
from ralphgen.cli.main import main
sys.argv[1:] = ["regen", "--no-install", "--quiet", sys.argv[1]]
sys.exit(main())
"""
SURROUNDINGS = {
    "a plain terminal": ("plain", "022", {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}),
    "no locale at all": (
        "quo\"te's {{ x }} {% raw %}",
        "077",
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ),
    "Turkish, in a far zone": (
        "emoji 🚀 größe מ",
        "000",
        {"PYTHONHASHSEED": "4294967295", "LANG": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati"},
    ),
    "a very long path, no colours": (
        "/".join(["long" * 20] * 3),
        "027",
        {"PYTHONHASHSEED": "random", "COLUMNS": "20", "NO_COLOR": "1", "PYTHONOPTIMIZE": "2"},
    ),
    "a colourful terminal": (
        "new\nline",
        "002",
        {"PYTHONHASHSEED": "7", "COLUMNS": "400", "FORCE_COLOR": "1", "PYTHONDEVMODE": "1"},
    ),
}
SECRETS = ("Ludwig", "Prompt of one", "TOKEN", "s3cr3t", "Begun it", "nightly", "WXYZ", "abcdef")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Project(lay_down("hostile", tmp_path_factory.mktemp("expected") / "p")).files


@pytest.mark.thorough
@pytest.mark.parametrize(
    "surroundings",
    shortened(SURROUNDINGS, "Turkish, in a far zone", "a very long path, no colours"),
)
def test_the_surroundings_of_a_process_do_not_show_in_its_output(
    surroundings: str, expected: Files, tmp_path: Path
) -> None:
    place, umask, environment = SURROUNDINGS[surroundings]
    root = lay_down("hostile", tmp_path / place)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home = {"HOME": str(elsewhere), "PATH": os.environ["PATH"], "TMPDIR": str(elsewhere)}
    command = [sys.executable, "-c", PROGRAM, str(root), umask, str(SOURCE)]
    done = subprocess.run(
        command, cwd=elsewhere, env={**home, **environment}, capture_output=True, check=False
    )

    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert expected == read_files(root / FOLDER)


def test_a_project_that_moved_is_up_to_date_and_its_server_starts(tmp_path: Path) -> None:
    root = lay_down("hostile", tmp_path / "before")
    regenerate(root, force=False, say=quiet)
    moved = tmp_path / "'after' \"it\" {{ moved }} 🚀"
    shutil.move(root, moved)
    done = subprocess.run(
        server_command(moved, "--check"), capture_output=True, encoding="utf-8", check=False
    )

    assert (0, "") == (done.returncode, done.stdout), done.stderr
    assert not checked(moved, say=quiet).drift


def test_writing_again_changes_no_byte_and_no_time(tmp_path: Path) -> None:
    root = lay_down("full", tmp_path / "project")
    regenerate(root, force=False, say=quiet)
    before = stamps(root / FOLDER)
    regenerate(root, force=False, say=quiet)

    assert before == stamps(root / FOLDER)


def test_a_clone_without_the_database_gives_the_same_bytes(tmp_path: Path) -> None:
    root = lay_down("full", tmp_path / "project")
    before = regenerate(root, force=False, say=quiet).files
    shutil.rmtree(root / ".ralph" / "db")

    assert before == Project(root).files


def test_emitted_files_reveal_no_place_time_or_maker(tmp_path: Path) -> None:
    """Only the manifest carries the version, and nothing a path, a name or a date."""
    root = lay_down("full", tmp_path / "very-special-folder")
    files = dict(Project(root).files)
    manifest = json.loads(files.pop("manifest.json"))
    assert ralphgen.__version__ == manifest.pop("ralphgen")
    files["manifest.json"] = json.dumps(manifest)
    anywhere = ("very-special-folder", str(tmp_path), str(SOURCE), f"{Path.home()}/")
    own = written_for_this_project(files)

    for word in (*anywhere, str(Path(sys.executable).parent), os.uname().nodename):
        assert [] == [path for path, text in files.items() if word in text], word
    for pattern in (r"\b20\d\d-\d\d-\d\d\b", r"\b\d\d:\d\d:\d\d\b", r"(?i)https?://"):
        assert [] == [path for path, text in own.items() if re.search(pattern, text)], pattern
    version = rf"(?<![\d.]){re.escape(ralphgen.__version__)}(?!\.?\d)"
    assert [] == [path for path, text in own.items() if re.search(version, text)]


def test_no_row_of_the_database_shows_in_emitted_files(tmp_path: Path) -> None:
    """A row is data: it may be secret, and it would make every other check out of date."""
    person, prompt, name, secret, comment, recipe, acronym, color = SECRETS
    root = lay_down(
        "full",
        tmp_path / "project",
        f"UPDATE metadata SET project_title = '{person}', project_description = '{person}'",
        f"UPDATE features SET display_name = '{person}', acronym = '{acronym}', "
        f"description = '{person}'",
        f"UPDATE disciplines SET display_name = '{person}', system_prompt = '{prompt}', "
        f'color = \'#{color}\', mcp_servers = \'[{{"env": {{"{name}": "{secret}"}}}}]\'',
        f"UPDATE tasks SET title = '{person}', description = '{secret}'",
        f"UPDATE task_comments SET author = '{person}', body = '{comment}'",
        f"UPDATE recipe_configs SET name = '{recipe}'",
    )
    rendered = written_for_this_project(Project(root).files)
    del rendered["manifest.json"]  # it holds digests, which may contain any short word

    for word in SECRETS:
        assert [] == [path for path, text in rendered.items() if word in text], word


def read_files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {str(path): path.stat() for path in folder.rglob("*") if path.name != ".lock"}
    return {
        name: (stat.S_IMODE(one.st_mode), one.st_ino, one.st_mtime_ns)
        for name, one in found.items()
        if stat.S_ISREG(one.st_mode)
    }


def written_for_this_project(files: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if not path.startswith("runtime/")}
