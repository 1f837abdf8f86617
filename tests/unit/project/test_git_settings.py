"""Settings of a repository are read again after each change, also of an included file."""

import shutil
from pathlib import Path

import pytest
from proved_projects import git, write_files

from ralphgen.project.git import settings_of

pytestmark = pytest.mark.slow


def count_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git first on `PATH` that writes a line for each of its runs."""
    log, real = folder / "log", shutil.which("git")
    text = f"#!/bin/sh\necho x >> '{log}'\nexec '{real}' \"$@\"\n"
    write_files(folder, [("log", ""), ("bin/git", text)])
    (folder / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    return log


def test_equal_content_is_listed_once_and_a_change_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    write_files(root, [("a.txt", "a")])
    git(root, "init", "--quiet")
    git(root, "config", "filter.own.clean", "cat")
    log = count_runs(tmp_path, monkeypatch)
    found = [settings_of(root), settings_of(root)]
    runs = len(log.read_text("utf-8").split())
    git(root, "config", "filter.own.clean", "tac")
    changed = settings_of(root)

    assert found[0] == found[1]
    assert ("filter.own.clean", "cat") in found[0]
    assert ("filter.own.clean", "tac") in changed
    assert 1 == runs


@pytest.mark.parametrize("section", ["[include]", "[InClude]", '[includeIf "onbranch:**"]'])
def test_change_of_an_included_file_counts_at_once(tmp_path: Path, section: str) -> None:
    root = tmp_path / "p"
    write_files(root, [("more", '[filter "own"]\n clean = cat\n')])
    git(root, "init", "--quiet")
    with (root / ".git/config").open("a", encoding="utf-8") as file:
        file.write(f"{section}\n path = {root}/more\n")
    before = settings_of(root)
    write_files(root, [("more", '[filter "own"]\n clean = tac\n')])

    assert ("filter.own.clean", "cat") in before
    assert ("filter.own.clean", "tac") in settings_of(root)


def test_config_that_git_cannot_read_has_no_settings_and_is_tried_again(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_files(root, [("a.txt", "a")])
    git(root, "init", "--quiet")
    whole = (root / ".git/config").read_text("utf-8")
    (root / ".git/config").write_text(f"{whole}[filter\n", encoding="utf-8")
    broken = settings_of(root)
    (root / ".git/config").write_text(whole, encoding="utf-8")

    assert [] == broken
    assert ("core.bare", "false") in settings_of(root)
