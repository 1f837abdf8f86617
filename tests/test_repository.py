"""The files that git tracks here: text, independent of machines, and unique names of tests."""

import re
import subprocess
from pathlib import Path

from driving import SCHEMAS
from syntax_trees import ROOT, name_of

PICTURES = ROOT / "docs" / "pictures"


def tracked() -> list[Path]:
    """Every file of the repository, committed or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        folders = [ROOT / name for name in ("ralphgen", "templates", "tests", "fixtures")]
        every = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
        return [path for path in every if path.suffix != ".pyc"]  # as git lists it
    names = sorted(filter(None, listed.stdout.decode().split("\0")))
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def texts() -> list[Path]:
    """Return the tracked files without the pictures of the documentation."""
    return [p for p in tracked() if (p.parent, p.suffix) != (PICTURES, ".png")]


class TestRepository:
    """Files that must not be committed, because other machines differ."""

    BINARY = (".db", ".sqlite", ".sqlite3", ".db-wal", ".db-shm", ".pyc", ".whl", ".gz", ".zip")
    MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|root|work)/\w|[A-Z]:\\Users\\")
    REGISTRY = re.compile(
        r"https?://(?!127\.0\.0\.1)[^\s\"']*(?:pypi|pythonhosted|artifact|nexus|/simple\b)"
        r"|--(?:extra-)?index-url +\S*://"
    )

    def test_it_holds_no_binary_files_except_pictures_of_the_docs(self) -> None:
        """A database is SQL text here, so that its changes are readable."""
        assert [] == [name_of(path) for path in tracked() if path.suffix in self.BINARY]
        assert [] == [name_of(path) for path in texts() if b"\0" in path.read_bytes()]

    def test_pictures_of_the_docs_are_small_and_whole(self) -> None:
        """A conversion of line ends would break the signature of a PNG."""
        pictures = [path.read_bytes() for path in PICTURES.glob("*.png")]

        assert pictures
        assert {b"\x89PNG\r\n\x1a\n"} == {picture[:8] for picture in pictures}
        assert 200_000 > max(map(len, pictures))

    def test_text_ends_its_lines_with_a_line_feed_alone(self) -> None:
        assert [] == [name_of(path) for path in texts() if b"\r\n" in path.read_bytes()]

    def test_the_repository_names_no_users_machine_and_no_registry(self) -> None:
        found = {
            f"{name_of(path)}: {match.group()}"
            for path in texts()
            if path != Path(__file__)
            for match in [
                *self.MACHINE.finditer(path.read_text(encoding="utf-8")),
                *self.REGISTRY.finditer(path.read_text(encoding="utf-8")),
            ]
        }

        assert set() == found

    def test_no_text_installs_ralphgen_from_an_index(self) -> None:
        """No public index has ralphgen, so anybody could register its name there."""
        found = {
            f"{name_of(path)}: {match.group()}"
            for path in texts()
            if path not in {Path(__file__), ROOT / "CHANGELOG.md"}
            for match in INSTALLS.finditer(path.read_text(encoding="utf-8"))
        }

        assert set() == found

    def test_base_names_of_tests_are_unique(self) -> None:
        """Test folders are not packages, so two files with the same name would hide each other."""
        packages = {"__init__.py", "conftest.py"}  # each folder has its own
        files = (ROOT / "tests").rglob("*.py")
        names = [path.name for path in files if path.name not in packages]

        assert [] == sorted({name for name in names if names.count(name) > 1})

    def test_every_fixture_schema_is_described(self) -> None:
        readme = (SCHEMAS / "README.md").read_text(encoding="utf-8").lower()

        assert [] == [path.name for path in SCHEMAS.glob("*.sql") if path.stem not in readme]

    def test_links_between_pages_reach_a_file_and_a_heading(self) -> None:
        pages = [
            path for path in tracked() if path.suffix == ".md" and "fixtures" not in path.parts
        ]
        broken = {
            f"{name_of(page)}: {link}"
            for page in pages
            for link in LINK.findall(prose_of(page))
            for name, _, heading in [link.partition("#")]
            for target in [page.parent / name if name else page]
            if not target.exists()
            or (heading and target.suffix == ".md" and heading not in anchors_of(target))
        }

        assert set() == broken


INSTALLS = re.compile(
    r"""(?:uvx|pipx run|(?:pip|pipx|uv tool) install)(?: -\S+)* ["']?ralphgen(?![\w/.-])"""
    r"""|"identifier": *"ralphgen\"""",
)
"""A command that takes ralphgen from an index, or an entry that names it there."""
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
"""A link to another place of the repository."""


def prose_of(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that the headings of a page have, by the rule of GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
