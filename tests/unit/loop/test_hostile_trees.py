"""Git in a tree that an agent can write: nothing that the tree names or contains is started."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from lanes import shortened
from merging_projects import SETTLED, base, branches, closed, merged, merging_project, say, worked
from proved_projects import TESTS, git, write_files

from ralphgen.emit.trust import git_items
from ralphgen.errors import ProjectError
from ralphgen.loop.git import TAIL, Git, skipped_hooks
from ralphgen.loop.merge import Conflict, Merged, RedCheck, Refused
from ralphgen.loop.trees import Worktree, prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.project.git import read_files_of_git
from ralphgen.runtime.files.work_tree import nested_repositories, tree_files

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that a program would write."""
    return tmp_path / "started"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home directory, without settings."""
    place = tmp_path / "home"
    place.mkdir()
    settings = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    monkeypatch.setenv("XDG_CONFIG_HOME", settings)  # it has the records of trust
    monkeypatch.setenv("HOME", str(place))
    return place


def forged(root: Path, tree: Worktree, settings: str, *, as_folder: bool) -> None:
    """Let `.git` of a tree name, or be, a repository like the real one with other settings."""
    fake = tree.path / (".git" if as_folder else "fake")
    if as_folder:
        (tree.path / ".git").unlink()
    commit = base(root)
    write_files(
        fake,
        [
            ("HEAD", f"ref: refs/heads/{tree.branch}\n"),
            ("objects/info/alternates", f"{root}/.git/objects\n"),
            (f"refs/heads/{tree.branch}", f"{commit}\n"),
            ("config", f"[core]\n\trepositoryformatversion = 0\n{settings}"),
        ],
    )
    if not as_folder:
        (tree.path / ".git").write_text(f"gitdir: {fake}\n", encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize(
    "setting",
    [
        "[core]\n\tfsmonitor = touch {mark}\n",
        '[filter "x"]\n\tclean = touch {mark}; cat\n\tsmudge = touch {mark}; cat\n',
        '[filter "x"]\n\tprocess = touch {mark}; cat\n',
        '[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = "touch {mark}"\n',
        '[merge "x"]\n\tdriver = touch {mark}\n',
        "[core]\n\thooksPath = .\n",
    ],
)
def test_a_forged_git_starts_no_program(
    root: Path, mark: Path, setting: str, as_folder: bool
) -> None:
    tree = worked(root, 1, [("new.txt", "x"), (".gitattributes", "*.txt filter=x merge=x\n")])
    write_files(tree.path, [("pre-commit", f"#!/bin/sh\ntouch '{mark}'\n")])
    (tree.path / "pre-commit").chmod(0o755)
    forged(root, tree, setting.format(mark=f"'{mark}'"), as_folder=as_folder)
    outcome = merged(root, tree, 1)
    again = prepare(root, 1, 2, SETTLED, say)

    assert isinstance(outcome, Merged)
    assert not mark.exists()
    assert "x" == (root / "new.txt").read_text(encoding="utf-8")
    assert f"gitdir: {root}/.git/worktrees/1\n" == (again.path / ".git").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_deleted_git_hides_no_file_from_the_proof(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    before = tree_files(str(tree.root))
    (tree.path / ".git").unlink()

    assert before == tree_files(str(tree.root))
    assert "new.txt" in before


@pytest.mark.thorough
@pytest.mark.parametrize("trusted", [False, True])
def test_a_filter_of_the_main_repository_counts_once_trusted(
    root: Path, mark: Path, trusted: bool
) -> None:
    git(root, "config", "filter.x.clean", f"touch '{mark}'; cat")
    git(root, "config", "core.fsmonitor", f"touch '{mark}.monitor'")
    if trusted:
        add_to_record(root, [item.digest for item in git_items(root, remote=False)])
    tree = worked(root, 1, [("new.txt", "x"), (".gitattributes", "*.txt filter=x\n")])

    assert isinstance(merged(root, tree, 1), Merged)
    assert trusted == mark.exists()
    assert not mark.with_name("started.monitor").exists()


@pytest.mark.thorough
def test_a_filter_of_the_user_takes_no_code_from_the_tree(
    root: Path, home: Path, mark: Path
) -> None:
    git(root, "config", "--file", str(home / ".gitconfig"), "filter.x.clean", "sh clean.sh || cat")
    files = [("new.txt", "x"), (".gitattributes", "*.txt filter=x\n")]
    tree = worked(root, 1, [*files, ("clean.sh", f"touch '{mark}'; cat")])

    assert isinstance(merged(root, tree, 1), Merged)
    assert not mark.exists()


@pytest.mark.thorough
def test_a_filter_of_the_user_is_applied(root: Path, home: Path) -> None:
    git(root, "config", "--file", str(home / ".gitconfig"), "filter.x.clean", "tr a-z A-Z")
    git(root, "config", "--file", str(home / ".gitconfig"), "filter.x.smudge", "tr A-Z a-z")
    tree = worked(root, 1, [("new.txt", "word"), (".gitattributes", "*.txt filter=x\n")])

    assert isinstance(merged(root, tree, 1), Merged)
    assert "WORD" == git(root, "show", "HEAD:new.txt")
    assert "word" == (root / "new.txt").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("of_user", shortened((True, False), False))
def test_a_merge_driver_finds_its_files(root: Path, home: Path, of_user: bool) -> None:
    place = ["--file", str(home / ".gitconfig")] if of_user else []
    git(root, "config", *place, "merge.x.driver", "cat %B >> %A; touch started_here")
    add_to_record(root, [item.digest for item in git_items(root, remote=False)])
    both = [(".gitattributes", "*.txt merge=x\n")]
    one = worked(root, 1, [("new.txt", "1\n"), *both], 1)
    two = worked(root, 2, [("new.txt", "2\n"), *both], 2)

    assert isinstance(merged(root, one, 1), Merged)
    assert isinstance(merged(root, two, 2), Merged)
    assert "1\n2\n" == (root / "new.txt").read_text(encoding="utf-8")
    assert of_user != (root / "started_here").exists()


@pytest.mark.thorough
@pytest.mark.parametrize(("rule", "expected"), [("merge=union", Merged), ("-merge", Conflict)])
def test_attributes_of_the_branch_determine_its_merges(
    root: Path, rule: str, expected: type[Merged] | type[Conflict]
) -> None:
    write_files(root, [("sub/.gitattributes", f"*.txt {rule}\n"), ("sub/a.txt", "1\n2\n3\n4\n")])
    git(root, "add", "sub")
    git(root, "commit", "--quiet", "--message", "rules")
    lines = ("0\n2\n3\n4\n", "1\n2\n3\n5\n") if rule == "-merge" else ("0\n", "5\n")
    one, two = (worked(root, n, [("sub/a.txt", text)], n) for n, text in enumerate(lines, start=1))

    assert isinstance(merged(root, one, 1), Merged)
    assert isinstance(merged(root, two, 2), expected)


def test_a_list_of_variables_for_checks_does_not_count_for_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = merging_project(tmp_path / "p", f'{TESTS}\n[environment]\nvariables = ["ONE"]\n')
    for name in ("SSH_AUTH_SOCK", "HTTPS_PROXY", "RALPH_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    names = Git(root).say("-c", "alias.names=!env", "names")

    assert "SSH_AUTH_SOCK=value of" in names
    assert "HTTPS_PROXY=value of" in names
    assert "RALPH_KEY" not in names


@pytest.mark.thorough
@pytest.mark.parametrize("kept", [5, TAIL - 10])
def test_a_secret_is_masked_before_the_output_of_git_is_cut(
    root: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setenv("DB_PASS", "correct-horse-battery")
    program = f"!printf %s correct-horse-battery; printf %0{kept}d 0"
    tail = Git(root).run_quietly("-c", f"alias.speak={program}", "speak").tail

    assert "battery" not in tail
    assert len(tail) <= TAIL


@pytest.mark.thorough
def test_hooks_do_not_run_and_are_named(root: Path, mark: Path) -> None:
    for name in ("pre-commit", "post-checkout", "pre-merge-commit.sample"):
        write_files(root / ".git/hooks", [(name, f"#!/bin/sh\ntouch '{mark}'\n")])
        (root / ".git/hooks" / name).chmod(0o755)

    assert ["pre-commit", "post-checkout"] == skipped_hooks(root)
    assert isinstance(merged(root, worked(root, 1, [("new.txt", "x")]), 1), Merged)
    assert not mark.exists()


@pytest.mark.thorough
def test_a_submodule_is_unchanged_and_git_does_not_enter(root: Path, mark: Path) -> None:
    commit = base(root)
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    (root / "sub").mkdir()
    git(root, "commit", "--quiet", "--message", "submodule")
    tree = worked(root, 1, [("new.txt", "x"), ("sub/own.txt", "y")])
    git(tree.root / "sub", "init", "--quiet")
    git(tree.root / "sub", "config", "core.fsmonitor", f"touch '{mark}'")

    assert "sub/own.txt" in tree_files(str(tree.root))
    assert [] == nested_repositories(str(tree.root), ["sub"])
    assert isinstance(merged(root, tree, 1), Merged)
    assert f"160000 commit {commit}\tsub\n" == git(root, "ls-tree", "HEAD", "sub")
    assert not mark.exists()


def with_submodule(root: Path, tmp_path: Path) -> LoopConfig:
    """The settings of a project that has a submodule, which their setup fills."""
    (tmp_path / "library").mkdir()
    git(tmp_path / "library", "init", "--quiet")
    (tmp_path / "library/code.c").write_text("1", encoding="utf-8")
    git(tmp_path / "library", "add", "--all")
    git(tmp_path / "library", "commit", "--quiet", "--message", "code")
    words = ["git", "-c", "protocol.file.allow=always", "submodule", "--quiet"]
    git(root, *words[1:], "add", str(tmp_path / "library"), "sub")
    git(root, "commit", "--quiet", "--message", "submodule")
    return LoopConfig.model_validate({"setup": [[*words, "update", "--init"]]})


def worked_on(root: Path, config: LoopConfig, task: int, path: str) -> Worktree:
    """Return a worktree where a session has written a file and has closed its task."""
    tree = prepare(root, 1, task, config, say)
    (tree.root / path).write_text("2", encoding="utf-8")
    closed(root, tree, task)
    return tree


@pytest.mark.thorough
def test_files_of_a_submodule_are_not_lost_and_do_not_reach_the_next_task(
    root: Path, tmp_path: Path
) -> None:
    config = with_submodule(root, tmp_path)
    outcome = merged(root, worked_on(root, config, 1, "sub/code.c"), 1, config)

    assert isinstance(outcome, RedCheck)
    assert "a task cannot change a submodule: sub/code.c" == outcome.tail
    again = prepare(root, 1, 2, config, say)
    assert "1" == (again.root / "sub/code.c").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_new_files_of_a_submodule_are_named_and_do_not_reach_the_next_task(
    root: Path, tmp_path: Path
) -> None:
    config, said = with_submodule(root, tmp_path), list[str]()
    tree = worked_on(root, config, 1, "sub/new.c")
    outcome = merged(root, tree, 1, config, tell=said.append)

    assert isinstance(outcome, Merged)
    assert "new files in a submodule are not merged: sub/new.c" in said
    again = prepare(root, 1, 2, config, say)
    assert ["code.c"] == [one.name for one in (again.root / "sub").glob("*.c")]


@pytest.mark.thorough
def test_a_changed_submodule_is_listed_whatever_the_tree_says(root: Path) -> None:
    ignored = '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = all\n'
    (root / ".gitmodules").write_text(ignored, encoding="utf-8")
    git(root, "add", ".gitmodules")
    git(root, "commit", "--quiet", "--message", "ignore the submodule")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{base(root)},sub")
    git(root, "commit", "--quiet", "--message", "a submodule")
    assert ["sub"] == Git(root).changed_paths("HEAD^", "HEAD")


def test_a_task_cannot_change_a_submodule(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(tree.root, "update-index", "--add", "--cacheinfo", f"160000,{base(root)},sub")
    git(tree.root, "commit", "--quiet", "--message", "a submodule")
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert "a task cannot change a submodule: sub" == outcome.tail


@pytest.mark.thorough
def test_an_ignored_repository_within_is_left_alone(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x"), ("kept.log/a.txt", "y")])
    git(tree.root / "kept.log", "init", "--quiet")

    assert [] == nested_repositories(str(tree.root), [])
    assert isinstance(merged(root, tree, 1), Merged)
    assert (tree.root / "kept.log/.git").is_dir()
    shutil.rmtree(tree.root / "kept.log")


@pytest.mark.thorough
def test_a_monitor_of_the_user_takes_no_program_from_the_tree(
    root: Path, home: Path, mark: Path
) -> None:
    git(root, "config", "--file", str(home / ".gitconfig"), "core.fsmonitor", "sh monitor.sh")
    tree = worked(root, 1, [("new.txt", "x"), ("monitor.sh", f"touch '{mark}'")])

    assert isinstance(merged(root, tree, 1), Merged)
    assert not mark.exists()


def test_replaced_objects_do_not_change_the_content_of_a_commit(root: Path) -> None:
    name = git(root, "ls-files").splitlines()[0]
    real, text = git(root, "rev-parse", f"HEAD:{name}"), git(root, "show", f"HEAD:{name}")
    (root / "other").write_text("other", encoding="utf-8")
    git(root, "replace", real.strip(), git(root, "hash-object", "-w", "other").strip())
    assert "other" == git(root, "show", f"HEAD:{name}").strip()

    assert text.rstrip("\n") == Git(root).say("show", f"HEAD:{name}")
    assert text.encode() == (read_files_of_git(root, [f"HEAD:{name}".encode()]) or [b""])[0]


@pytest.mark.thorough
def test_a_graft_does_not_change_the_history(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    assert isinstance(merged(root, tree, 1), Merged)
    (root / ".git/info/grafts").write_text(f"{base(root).strip()}\n", encoding="utf-8")
    assert "1" == git(root, "rev-list", "--count", "HEAD").strip()

    assert int(Git(root).say("rev-list", "--count", "HEAD")) > 1


def test_a_forged_commit_graph_does_not_change_the_tree_of_a_commit(root: Path) -> None:
    worse = git(root, "rev-parse", "HEAD^{tree}").strip()
    write_files(root, [("new.txt", "x")])
    git(root, "add", "new.txt")
    git(root, "commit", "--quiet", "--message", "new")
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    git(root, "commit-graph", "write", "--reachable")
    graph = root / ".git/objects/info/commit-graph"
    forged = graph.read_bytes().replace(bytes.fromhex(tree), bytes.fromhex(worse))
    graph.chmod(0o644)
    graph.write_bytes(forged)
    assert "" == git(root, "diff", "--name-only", worse, "HEAD")

    assert tree == Git(root).say("rev-parse", "HEAD^{tree}")
    assert "new.txt" == Git(root).say("diff", "--name-only", worse, "HEAD")


@pytest.mark.thorough
@pytest.mark.parametrize("as_link", [True, False])
def test_a_forged_record_of_a_work_tree_starts_no_program(
    root: Path, mark: Path, as_link: bool
) -> None:
    tree = worked(root, 1, [("new.txt", "x"), (".gitattributes", "*.txt filter=x\n")])
    forged(
        root,
        tree,
        f"\tfsmonitor = touch '{mark}'\n\tworktree = {tree.path}\n"
        f"[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = {tree.path}/more\n"
        f"[filter \"x\"]\n\tclean = touch '{mark}'; cat\n",
        as_folder=False,
    )
    fake, record = tree.path / "fake", root / ".git/worktrees/1"
    write_files(
        tree.path,
        [
            ("more", f"[core]\n\tfsmonitor = touch '{mark}'\n"),
            ("fake/gitdir", f"{tree.path}/.git\n"),
            ("fake/commondir", f"{fake}\n"),
            ("fake/config.worktree", (fake / "config").read_text(encoding="utf-8")),
            ("fake/hooks/pre-commit", f"#!/bin/sh\ntouch '{mark}'\n"),
            ("fake/hooks/reference-transaction", f"#!/bin/sh\ntouch '{mark}'\n"),
        ],
    )
    for hook in (fake / "hooks").iterdir():
        hook.chmod(0o755)
    if as_link:
        shutil.copy(record / "index", fake / "index")
        shutil.rmtree(record)
        record.symlink_to(fake)
    else:
        for name in ("commondir", "config.worktree"):
            shutil.copy(fake / name, record / name)
        shutil.copytree(fake / "hooks", record / "hooks")
    before = base(root)
    tree_files(str(tree.root))
    with suppress(ProjectError):
        merged(root, tree, 1)

    assert not mark.exists()
    assert before.strip() in git(root, "rev-list", "HEAD").splitlines()


SPELLED = (".GIT", "git~1", ".git ", ".g\u200cit", ".git::$INDEX_ALLOCATION")


@pytest.mark.thorough
@pytest.mark.parametrize("name", shortened(SPELLED, ".GIT"))
@pytest.mark.parametrize("folder", ["", "sub/"])
def test_a_repository_in_another_spelling_is_refused_and_stops_no_loop(
    root: Path, name: str, folder: str
) -> None:
    path = f"{folder}{name}"
    tree = worked(root, 1, [("new.txt", "x"), (f"{path}/config", "[core]\n"), ("sub/a.txt", "y")])

    assert [path] == nested_repositories(str(tree.root), [])
    outcome = merged(root, tree, 1)
    assert isinstance(outcome, RedCheck)
    assert f"a nested repository cannot be merged: {path}" == outcome.tail
    again = prepare(root, 1, 2, SETTLED, say)
    assert not (again.root / path).exists()
    assert "y" == git(root, "show", f"{branches(root)[0]}:sub/a.txt")


@pytest.mark.thorough
def test_a_file_that_git_cannot_add_stops_no_loop(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    write_files(tree.root, [("new.txt", "x"), ("target", "y")])
    (tree.root / ".gitmodules").symlink_to("target")
    closed(root, tree, 1)

    assert isinstance(merged(root, tree, 1), RedCheck)
    again = prepare(root, 1, 2, SETTLED, say)
    assert not (again.root / ".gitmodules").is_symlink()
    assert not (again.root / "new.txt").exists()


@pytest.mark.thorough
def test_a_repository_around_tracked_files_is_refused_and_does_not_reach_the_next_task(
    root: Path, mark: Path
) -> None:
    write_files(root, [("src/a.py", "a"), ("src/b.py", "b")])
    git(root, "add", "src")
    git(root, "commit", "--quiet", "--message", "code")
    tree = worked(root, 1, [("src/a.py", "x"), ("src/new.py", "y")])
    git(tree.root / "src", "init", "--quiet")
    git(tree.root / "src", "config", "core.fsmonitor", f"touch '{mark}'")

    assert ["src"] == nested_repositories(str(tree.root), [])
    outcome = merged(root, tree, 1)
    assert isinstance(outcome, RedCheck)
    assert "a nested repository cannot be merged: src" == outcome.tail
    again = prepare(root, 1, 2, SETTLED, say)
    assert [] == nested_repositories(str(again.root), [])
    assert "a" == (again.root / "src/a.py").read_text(encoding="utf-8")
    assert "x" == git(root, "show", f"{branches(root)[0]}:src/a.py")
    assert "y" == git(root, "show", f"{branches(root)[0]}:src/new.py")
    assert not mark.exists()


@pytest.mark.thorough
def test_attributes_without_a_filter_count(root: Path) -> None:
    attributes = "*.txt text eol=crlf\n*.md text\n"
    tree = worked(root, 1, [(".gitattributes", attributes), ("a.txt", "x\r\n"), ("b.md", "y\n")])

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x\n" == git(root, "cat-file", "blob", "HEAD:a.txt")
    assert b"x\r\n" == (root / "a.txt").read_bytes()
    assert b"y\n" == (root / "b.md").read_bytes()


def test_a_task_cannot_change_how_a_protected_file_is_checked_out(root: Path) -> None:
    outcome = merged(
        root, worked(root, 1, [(".gitattributes", ".ralph/*.toml text eol=crlf\n")]), 1
    )

    assert isinstance(outcome, Refused)
    assert (".gitattributes",) == outcome.files


def test_attributes_of_the_repository_count_once_trusted(root: Path) -> None:
    write_files(root, [(".git/info/attributes", ".gitignore text eol=crlf\n")])
    for is_trusted in (False, True):
        if is_trusted:
            add_to_record(root, [item.digest for item in git_items(root, remote=False)])
        tree = prepare(root, 1 + is_trusted, 1 + is_trusted, SETTLED, say)

        assert is_trusted == ((tree.root / ".gitignore").read_bytes().endswith(b"\r\n"))


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["tools/hooks/pre-commit", ".husky/pre-commit", ".githooks/a"])
def test_a_task_cannot_change_a_hook_that_the_user_runs(root: Path, path: str) -> None:
    git(root, "config", "core.hooksPath", "tools/hooks")
    outcome = merged(root, worked(root, 1, [("new.txt", "x"), (path, "#!/bin/sh\n")]), 1)

    assert isinstance(outcome, Refused)
    assert (path,) == outcome.files
    assert not (root / path).exists()


@pytest.mark.parametrize("path", ["docs/a.md", "docs/deep/b.md", "notes/c.md", "far"])
def test_a_task_cannot_change_files_to_which_links_of_authority_lead(root: Path, path: str) -> None:
    write_files(root, [("docs/a.md", "x"), ("docs/deep/b.md", "x"), ("notes/c.md", "x")])
    (root / ".claude").mkdir()
    (root / "far").symlink_to("docs")
    (root / ".claude/agents").symlink_to("../far")
    (root / "docs/c.md").symlink_to("../notes/c.md")
    git(root, "add", "-A", ".claude", "docs", "notes", "far")
    git(root, "commit", "-qm", "x")
    tree = prepare(root, 1, 1, SETTLED, say)
    if (tree.root / path).is_symlink():
        (tree.root / path).unlink()
    (tree.root / path).write_text("y", encoding="utf-8")
    closed(root, tree, 1)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, Refused)
    assert path in str(outcome)


def test_a_task_cannot_add_a_link_above_the_target_of_a_link_of_authority(root: Path) -> None:
    (root / ".mcp.json").symlink_to("lib/y")
    git(root, "add", ".mcp.json")
    git(root, "commit", "-qm", "x")
    tree = prepare(root, 1, 1, SETTLED, say)
    write_files(tree.root, [("elsewhere/y", "x")])
    (tree.root / "lib").symlink_to("elsewhere")
    closed(root, tree, 1)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, Refused)
    assert ("lib",) == outcome.files


@pytest.mark.parametrize(
    ("name", "files"), [("new.txt", ()), ("lib", ("lib",)), ("turn", ("turn",))]
)
def test_a_circle_of_links_of_authority_protects_its_links(
    root: Path, name: str, files: tuple[str, ...]
) -> None:
    for path, target in ((".mcp.json", "lib/y"), ("lib", "turn/b"), ("turn", "lib/c")):
        (root / path).symlink_to(target)
    git(root, "add", ".mcp.json", "lib", "turn")
    git(root, "commit", "-qm", "x")
    tree = prepare(root, 1, 1, SETTLED, say)
    (tree.root / name).unlink(missing_ok=True)
    (tree.root / name).write_text("x", encoding="utf-8")
    closed(root, tree, 1)
    outcome = merged(root, tree, 1)

    assert (outcome.files if isinstance(outcome, Refused) else ()) == files
