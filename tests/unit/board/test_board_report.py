"""`ralphgen board --export`: a self-contained file, the same on every machine."""

import json
import os
import re
import shutil
import time
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from board_browsers import Elements
from command_line import ralphgen, ran, refused
from driving import create_project, made_here, query

from ralphgen.board.project import report

pytestmark = pytest.mark.slow

SECTIONS = ["progress", "access", "disciplines", "drift"]
SERVERS = [{"name": "db", "command": "npx", "args": ["-y"], "env": {"KEY": "s3cret-value"}}]
SESSION = """
INSERT INTO ralphgen_sessions (id, recipe, task_id, agent, started, ended, outcome, cost_usd)
VALUES ('task_execution-2-x', 'task_execution', 2, 'claude', '2026-02-10T22:00:00Z',
    '2026-02-10T22:20:00Z', 'done', 1.25)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("reported") / "p")
    query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SERVERS))
    made_here(root)
    ran("db", "ledger", "on", "--yes", "--quiet", cwd=root)
    query(root, "UPDATE features SET display_name = '<b onclick=x()>&amp;</b>'")
    query(root, SESSION)
    (root / ".ralph/mcp/policy.py").write_text("# <i>mine</i>\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def html(root: Path) -> str:
    """The report on standard output."""
    done = ralphgen("board", "-C", root, "--export", "-")
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """Another time zone, whose days differ in the night of the recorded session."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def sections(html: str) -> list[str | None]:
    return [one["id"] for one in Elements(html).of("section")]


def test_it_has_the_sections_without_what_depends_on_the_machine(html: str) -> None:
    found = Elements(html).found

    assert SECTIONS == sections(html)
    assert not {tag for tag, _ in found} & {"script", "link", "img", "form", "input", "iframe"}
    assert [] == [name for _, given in found for name in given if name.startswith("on")]
    assert "&lt;b onclick=x()&gt;&amp;amp;&lt;/b&gt;" in html


@pytest.mark.usefixtures("in_tokyo")
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


def test_recorded_sessions_are_there_when_they_are_asked_for(root: Path, html: str) -> None:
    done = ralphgen("board", "-C", root, "--sessions", "--export", "-")

    assert "task_execution-2-x" not in html
    assert [*SECTIONS, "sessions"] == sections(done.stdout)
    for words in ("task_execution-2-x", "#2", "2026-02-10T22:00:00Z", "$1.25", "done"):
        assert words in done.stdout
    assert done.stdout == report(root, sessions=True)


def test_its_sheet_is_the_only_thing_that_its_policy_lets_in(html: str) -> None:
    (sheet,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    digest = b64encode(sha256(sheet.encode()).digest()).decode()
    (policy,) = [
        given["content"]
        for given in Elements(html).of("meta")
        if given.get("http-equiv") == "Content-Security-Policy"
    ]

    assert f"default-src 'none'; style-src 'sha256-{digest}'" == policy
    assert "url(" not in sheet
    assert " style=" not in html


def test_it_is_written_whole_and_says_how_much(root: Path, html: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    done = ralphgen("board", "-C", root, "--export", target)
    size = len(target.read_bytes())

    assert (0, "", f"{target}: {size:,} bytes\n") == (done.returncode, done.stdout, done.stderr)
    assert html == target.read_text(encoding="utf-8")
    assert [target] == list(target.parent.iterdir())


def test_what_cannot_be_reported_or_written_is_refused(root: Path, tmp_path: Path) -> None:
    assert "not a ralphgen project: no .ralph in" in refused(
        "board", "-C", tmp_path, "--export", "-"
    )
    assert "cannot be written" in refused("board", "-C", root, "--export", tmp_path)
    assert 2 == ralphgen("board", "-C", root, "--sessions").returncode


def test_the_export_has_no_value_of_a_hidden_column(tmp_path: Path) -> None:
    hidden = ["mcp_servers", "display_name"]
    entries = json.dumps([f"disciplines.{column}" for column in hidden])
    root = create_project(tmp_path / "p", config=f"[schema]\nhide = {entries}\n")
    servers = [{"name": "secret-name", "command": "secret-command", "args": ["secret-word"]}]
    query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(servers))
    query(root, "UPDATE disciplines SET display_name = 'Secret title'")
    text = report(root)
    section = text[text.index('id="disciplines"') :].partition("</section>")[0]

    ((name,), *_) = query(root, "SELECT name FROM disciplines")
    assert str(name) in section
    for word in ("secret", "Secret", "MCP server"):
        assert word not in section
    query(root, "UPDATE disciplines SET mcp_servers = '[secret'")
    assert "secret" not in report(root)
