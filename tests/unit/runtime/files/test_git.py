"""git starts filters of the user outside of the work tree, and none of a submodule."""

import shutil
from pathlib import Path

import pytest
from proved_projects import git, write_files

from ralphgen.runtime.files.git import WITHOUT_FILES, run_git
from ralphgen.runtime.files.main_tree import Repository, repository_of

pytestmark = pytest.mark.slow
COMMANDS = {
    "cat-file": ("-p", "HEAD:a.txt"),
    "check-ref-format": ("refs/heads/a",),
    "commit-tree": ("-m", "a", "HEAD^{tree}"),
    "config": ("--list",),
    "diff-tree": ("-p", "--root", "HEAD"),
    "for-each-ref": (),
    "ls-files": ("--others", "--stage", "-v"),
    "ls-tree": ("-r", "HEAD"),
    "merge-base": ("HEAD", "HEAD"),
    "mktree": (),
    "rev-list": ("--objects", "HEAD"),
    "rev-parse": ("HEAD",),
    "symbolic-ref": ("HEAD",),
    "update-ref": ("refs/heads/other", "HEAD"),
    "var": ("GIT_AUTHOR_IDENT",),
    "write-tree": (),
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with an edited file, and a user whose filter records where it started."""
    root, home = tmp_path / "p", tmp_path / "home"
    filters = f'[filter "own"]\n clean = "pwd >> \'{home}/started\'; cat"\n'
    write_files(root, [(".gitattributes", "*.txt filter=own\n"), ("a.txt", "a\n")])
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "A")
    identity = "[user]\n name = a\n email = a@b\n"
    write_files(home, [(".gitconfig", identity + filters)])
    write_files(root, [("a.txt", "b\n")])
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    found = repository_of(str(root))
    assert found is not None
    return found


def test_every_command_that_skips_the_listing_is_tried() -> None:
    assert WITHOUT_FILES == COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_command_without_files_starts_no_filter(
    repository: Repository, tmp_path: Path, command: str
) -> None:
    done = run_git(repository, [command, *COMMANDS[command]], settings=(), folder=repository.top)

    assert (0, b"") == (done.code, done.errors)
    assert not (tmp_path / "home/started").exists()


@pytest.mark.parametrize(
    "words",
    [("add", "--all"), ("-c", "core.bare=false", "add", "a.txt"), ("ls-files", "--modified")],
    ids=" ".join,
)
def test_filter_starts_outside_of_the_work_tree(
    repository: Repository, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = run_git(repository, words, settings=(), folder=repository.top)
    started = (tmp_path / "home/started").read_text("utf-8").splitlines()

    assert 0 == done.code, done.errors
    assert started
    assert not [folder for folder in started if Path(folder).is_relative_to(repository.top)]


def test_only_commands_that_convert_files_list_the_settings(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    real = shutil.which("git")
    write_files(tmp_path, [("bin/git", f"#!/bin/sh\necho x >> '{log}'\nexec '{real}' \"$@\"\n")])
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    run_git(repository, ["-c", "core.bare=false", "rev-parse", "HEAD"], settings=())
    runs = [len(log.read_text("utf-8").split())]
    run_git(repository, ["add", "a.txt"], settings=())
    runs.append(len(log.read_text("utf-8").split()))

    assert [1, 3] == runs


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--porcelain"),
        ("--no-optional-locks", "status", "--porcelain"),
        ("diff", "HEAD"),
        ("diff", "--ignore-submodules=dirty", "HEAD"),
        ("diff-files",),
    ],
    ids=" ".join,
)
def test_no_filter_of_a_submodule_starts(
    repository: Repository, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """An agent writes `.gitmodules`, and makes of the submodule a repository with a filter."""
    root, inner = Path(repository.top), Path(repository.top, "sub")
    write_files(inner, [("a.bin", "a\n")])
    git(inner, "init", "--quiet")
    git(inner, "add", "--all")
    git(inner, "commit", "--quiet", "--message", "A")
    git(root, "add", "--all")
    modules = '[submodule "sub"]\n path = sub\n url = ../sub\n ignore = none\n'
    write_files(root, [(".gitmodules", modules)])
    git(inner, "config", "filter.evil.clean", f"touch '{tmp_path}/hit'; cat")
    write_files(inner, [(".gitattributes", "*.bin filter=evil\n"), ("a.bin", "b\n")])

    done = run_git(repository, words, settings=(), folder=repository.top)

    assert 0 == done.code, done.errors
    assert not (tmp_path / "hit").exists()
