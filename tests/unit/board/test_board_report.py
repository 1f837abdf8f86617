"""`ralphgen board --export`: a self-contained file, the same on every machine."""

import json
import os
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command_line import ralphgen, refused
from driving import create_project, made_here, query
from making_sessions import opened

from ralphgen.board import tasks as open_tasks
from ralphgen.board.sections import report

pytestmark = pytest.mark.slow

SECTIONS = ["matrix", "status", "drift", "disciplines"]
SERVERS = [{"name": "db", "command": "npx", "args": ["-y"], "env": {"KEY": "s3cret-value"}}]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("reported") / "p")
    query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SERVERS))
    made_here(root)
    query(root, "UPDATE tasks SET title = '<b onclick=x()>&amp;</b>' WHERE id = 2")
    opened(root, "task_execution", task=2)
    (root / ".ralph/mcp/policy.py").write_text("# <i>mine</i>\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def html(root: Path) -> str:
    """The report on standard output."""
    done = ralphgen("board", "-C", root, "--export", "-")
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


class Elements(HTMLParser):
    """The elements of a text of HTML, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.thorough
@pytest.mark.slow
def test_it_has_the_sections_without_what_depends_on_the_machine(html: str) -> None:
    found = Elements(html).found

    assert SECTIONS == [attributes["id"] for tag, attributes in found if tag == "section"]
    tags = {tag for tag, _ in found}
    assert not tags & {"script", "link", "img", "form", "button", "input", "iframe", "b", "i"}
    assert [] == [name for _, attributes in found for name in attributes if name.startswith("on")]


def test_it_is_the_same_in_every_folder_and_on_every_day(
    root: Path, html: str, tmp_path: Path
) -> None:
    copy = shutil.copytree(root, tmp_path / "elsewhere" / "q")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    found = report(copy)

    assert html == found
    assert str(tmp_path) not in found
    assert "s3cret-value" not in found
    assert "KEY" in found
    assert "Shop" in found


@pytest.mark.thorough
def test_sessions_of_the_machine_are_there_when_they_are_asked_for(
    root: Path, html: str, tmp_path: Path
) -> None:
    (session,) = (root / ".ralph/mcp/sessions").iterdir()
    bare = shutil.copytree(root, tmp_path / "q", ignore=shutil.ignore_patterns("sessions"))
    done = ralphgen("board", "-C", root, "--sessions", "--export", "-")
    found = [row["id"] for tag, row in Elements(done.stdout).found if tag == "section"]

    assert session.name not in html
    assert html == report(bare)
    assert session.name in done.stdout
    assert [*SECTIONS, "sessions"] == [name for name in found if name != "record"]
    assert re.search(
        r"<td data-label=.Last start. class=.number.>2\d{3}-\d\d-\d\dT\d\d:\d\dZ", done.stdout
    )


def test_its_sheet_is_the_only_thing_that_its_policy_lets_in(html: str) -> None:
    (sheet,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    (policy,) = [
        attributes["content"]
        for tag, attributes in Elements(html).found
        if attributes.get("http-equiv") == "Content-Security-Policy" and tag == "meta"
    ]

    assert f"default-src 'none'; style-src 'sha256-{digest}'" == policy
    assert "url(" not in sheet


def test_it_is_written_whole_and_says_how_much(root: Path, html: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    done = ralphgen("board", "-C", root, "--export", target)
    size = len(target.read_bytes())

    assert (0, "", f"{target}: {size:,} bytes\n") == (done.returncode, done.stdout, done.stderr)
    assert html == target.read_text(encoding="utf-8")
    assert [target] == list(target.parent.iterdir())


@pytest.mark.slow
def test_of_very_many_open_tasks_it_tells_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = create_project(tmp_path / "p")
    whole = report(root)
    monkeypatch.setattr(open_tasks, "MOST_OPEN", 1)

    assert "open tasks: the lists" not in whole
    assert "open tasks: the lists below are of the first 1." in report(root)


def test_what_cannot_be_reported_or_written_is_refused(root: Path, tmp_path: Path) -> None:
    assert "not a ralphgen project: no .ralph in" in refused(
        "board", "-C", tmp_path, "--export", "-"
    )
    assert "cannot be written" in refused("board", "-C", root, "--export", tmp_path)
    assert 2 == ralphgen("board", "-C", root, "--sessions").returncode
