"""The wheel holds everything that a machine without the repository needs, and nothing else."""

import email.policy
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import ralphgen

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from hatchling.build import build_sdist, build_wheel
build_wheel(sys.argv[1])
build_sdist(sys.argv[1])
"""
MANUAL = "share/man/man1/ralphgen.1"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def build(source: Path, folder: Path) -> None:
    command = [sys.executable, "-c", BUILD, str(folder)]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, bytes]:
    """The files of the wheel."""
    return files_of(built)


def files_of(folder: Path) -> dict[str, bytes]:
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata(wheel: dict[str, bytes]) -> Message:
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel[name], policy=email.policy.default)


def committed() -> set[str]:
    """Return the files of the repository; empty in a source archive."""
    listing = ["git", "ls-files", "-z"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    return {*filter(None, listed.stdout.decode().split("\0"))}


def template_texts() -> dict[str, bytes]:
    """The templates of the repository, by their path below the folder of them."""
    folder = ROOT / "templates"
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.thorough
def test_every_file_of_the_package_is_inside(wheel: dict[str, bytes]) -> None:
    package = ROOT / "ralphgen"
    files = [path for path in package.rglob("*") if path.is_file()]
    expected = {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"}

    assert {
        "ralphgen/py.typed",
        "ralphgen/environment/locks/dela.lock",
        "ralphgen/environment/locks/http.lock",
        "ralphgen/environment/locks/postgresql.lock",
        "ralphgen/environment/locks/rye.lock",
        "ralphgen/emit/schema.sql",
        "ralphgen/ledger/entries.sql",
        "ralphgen/ledger/schema.sql",
        "ralphgen/emit/stacks/generic.toml",
    } <= expected
    assert expected == {name for name in wheel if name.startswith("ralphgen/")} - {
        f"ralphgen/templates/{name}" for name in template_texts()
    }


@pytest.mark.thorough
def test_the_templates_are_inside_unchanged(wheel: dict[str, bytes]) -> None:
    folder = "ralphgen/templates/"

    assert template_texts() == {
        name.removeprefix(folder): text for name, text in wheel.items() if name.startswith(folder)
    }


def test_nothing_is_next_to_the_package(wheel: dict[str, bytes]) -> None:
    """A top-level `tests` or `templates` would land in everybody's site-packages."""
    named = f"ralphgen-{ralphgen.__version__}"
    beside = [name for name in wheel if not name.startswith(("ralphgen/", f"{named}.dist-info/"))]

    assert [f"{named}.data/data/{MANUAL}"] == beside


def test_the_man_page_is_inside(wheel: dict[str, bytes]) -> None:
    (shipped,) = (text for name, text in wheel.items() if name.endswith(MANUAL))

    assert (ROOT / "docs/ralphgen.1").read_bytes() == shipped


def test_the_version_equals_the_first_of_the_changelog() -> None:
    versions = re.findall(r"(?m)^## (?!Unreleased$)(\S+)", CHANGELOG)
    assert ralphgen.__version__ == versions[0]


def test_the_metadata_describes_the_package(metadata: Message, wheel: dict[str, bytes]) -> None:
    (licence,) = (name for name in wheel if name.endswith("licenses/LICENSE"))
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    plain = {re.split("[^a-z0-9-]", line)[0] for line in needed}

    assert "ralphgen" == metadata["Name"]
    assert ralphgen.__version__ == metadata["Version"]
    assert ">=3.11" == metadata["Requires-Python"]
    assert "MIT" == metadata["License-Expression"]
    assert wheel[licence].startswith(b"MIT License")
    assert {
        "jinja2",
        "mcp",
        "pydantic",
        "typer",
        "filelock",
        "platformdirs",
        "rich",
        "tomlkit",
    } <= plain
    assert "# ralphgen" in metadata.get_payload()


def test_it_brings_one_command(wheel: dict[str, bytes]) -> None:
    (name,) = (name for name in wheel if name.endswith("entry_points.txt"))

    assert b"[console_scripts]\nralphgen = ralphgen.cli.main:main\n" == wheel[name]


@pytest.mark.thorough
def test_the_source_archive_has_every_file_of_the_repository(
    built: Path, tmp_path: Path, wheel: dict[str, bytes]
) -> None:
    """Its tests can be run there, and it makes the same wheel."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    there = {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()}
    build(folder, tmp_path / "dist")

    assert [] == [name for name in there if "__pycache__" in name or name.startswith(".venv")]
    assert committed() - there <= {".git-blame-ignore-revs"}
    assert wheel == files_of(tmp_path / "dist")
