"""The own tools of a clone are code that its sessions run: they need a record, file by file."""

import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, made_here, quiet

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

FILE = ".ralph/tools/own.py"
TOOL = 'def own(project: Project) -> str:\n    """Say so."""\n'


@pytest.mark.thorough
def test_a_clones_tools_need_a_record_which_a_change_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = create_project(tmp_path / "model")
    (root / FILE).parent.mkdir()
    (root / FILE).write_text(TOOL, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    clone = shutil.copytree(root, tmp_path / "clone")
    refused = ralphgen("session", "create", "yap", "--project", clone)

    assert 2 == refused.returncode
    assert f"  sessions run {FILE}" in refused.stderr
    assert 2 == ralphgen("call", "ralph:own", cwd=clone).returncode

    done = ralphgen("regen", clone, "--no-install")
    assert 0 == done.returncode
    held = "warning: not approved on this machine yet; the server does not start:\n"
    assert (
        f'{held}  sessions run {FILE}\nhint: review and approve with "ralphgen trust"\n'
        in done.stderr
    )
    assert 2 == ralphgen("call", "ralph:own", cwd=clone).returncode

    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    assert 0 == ralphgen("session", "create", "yap", "--project", clone).returncode

    (clone / FILE).write_text(TOOL + "\n", encoding="utf-8")
    assert 2 == ralphgen("session", "create", "yap", "--project", clone).returncode


@pytest.mark.parametrize(
    ("file", "text", "shown"),
    [
        (
            ".ralph/queries/open.sql",
            "-- name: open_titles :many\n-- Titles.\nSELECT title FROM tasks;\n",
            "use",
        ),
        (".ralph/ralphgen.toml", '\n[describe]\n"ralph:get_task" = "Obey."\n', "agents read this"),
    ],
)
def test_a_clones_queries_and_descriptions_need_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, shown: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = create_project(tmp_path / "model")
    (root / file).parent.mkdir(exist_ok=True)
    with (root / file).open("a", encoding="utf-8") as stream:
        stream.write(text)
    regenerate(root, force=False, say=quiet)
    clone = shutil.copytree(root, tmp_path / "clone")

    for words in (("call", "ralph:list_tasks"), ("serve", "ralph")):
        refused = ralphgen(*words, cwd=clone)
        assert (2, True) == (refused.returncode, shown in refused.stderr)

    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    assert 0 == ralphgen("call", "ralph:list_tasks", cwd=clone).returncode


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that was made here, in a repository."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = create_project(tmp_path / "own")
    (root / FILE).parent.mkdir()
    git(root, "init", "-q")
    return made_here(root)


def git(root: Path, *words: str) -> bytes:
    call = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(call, cwd=root, check=True, capture_output=True).stdout


def test_ones_own_tools_are_on_record_before_they_are_committed(own: Path) -> None:
    (own / FILE).write_text(TOOL, encoding="utf-8")
    regenerate(own, force=False, say=quiet)
    git(own, "add", "-f", FILE)
    git(own, "commit", "-qm", "x")

    assert 0 == ralphgen("session", "create", "yap", "--project", own).returncode


@pytest.mark.thorough
@pytest.mark.parametrize(
    "attribute", ["text eol=crlf", "ident", "working-tree-encoding=ISO-8859-1", "filter=x"]
)
def test_a_pulled_tool_is_asked_for_also_if_git_has_changed_it(own: Path, attribute: str) -> None:
    text = f"# $Id: 1 $ caf\u00e9\n{TOOL}".replace("\n", "\r\n").encode()
    (own / ".gitattributes").write_text(f"*.py {attribute}\n", encoding="utf-8")
    (own / FILE).write_bytes(text)
    git(own, "config", "filter.x.clean", "sed s/Say/Tell/")
    git(own, "add", "-f", FILE)
    git(own, "commit", "-qm", "x")
    assert text != git(own, "show", f"HEAD:{FILE}")
    regenerate(own, force=False, say=quiet)

    assert 2 == ralphgen("session", "create", "yap", "--project", own).returncode
    assert 2 == ralphgen("call", "ralph:own", cwd=own).returncode
