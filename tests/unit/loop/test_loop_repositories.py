"""`ralphgen loop --worktrees` in every layout of a repository, and with hostile files of git."""

import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from loop_projects import LoopProject
from planned_agent import PROVES, Steps
from proved_projects import TESTS, git, write_files

pytestmark = pytest.mark.slow


def repository(
    folder: Path, tasks: int = 1, plan: dict[str, list[Steps]] | None = None
) -> LoopProject:
    """A project in a repository, with its rows in the last commit."""
    folder.mkdir(exist_ok=True)
    project = LoopProject(folder, tasks, plan or {"*": [PROVES]}, config=TESTS, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    git(project.root, "commit", "--quiet", "--all", "--message", "rows")
    return project


def trusted(project: LoopProject, root: Path) -> LoopProject:
    """Move the project to another folder unchanged, and trust it as its user."""
    git(root, "config", "user.name", "n")
    git(root, "config", "user.email", "e@example.org")
    project.root = root
    assert 0 == ralphgen("trust", "-C", root, "--yes").returncode
    return project


def assert_merged(project: LoopProject) -> None:
    done = project.loop("--worktrees")
    assert 0 == done.returncode, done.stderr
    assert "task-1.txt" in git(project.root, "ls-tree", "-r", "--name-only", "HEAD")
    assert (project.root / "task-1.txt").exists()


def test_an_archive_starts_nothing_before_it_is_trusted(tmp_path: Path) -> None:
    project = repository(tmp_path)
    mark, hook = tmp_path / "started", project.root / ".git/hooks/post-checkout"
    write_files(project.root, [("hook.sh", f"#!/bin/sh\ntouch '{mark}'\n")])
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{mark}'\n", encoding="utf-8")
    hook.chmod(0o755)
    git(project.root, "config", "core.fsmonitor", f"sh '{project.root}/hook.sh'")
    (tmp_path / "config").mkdir()
    project.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")  # without a record
    mark.unlink(missing_ok=True)
    done = project.loop("--worktrees", "--max-tasks", "1")

    assert 2 == done.returncode
    assert "has not been approved" in done.stderr
    assert not mark.exists()


PROGRAMS = (
    *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass"),
    *("core.alternateRefsCommand", "core.gitProxy", "diff.external", "diff.x.textconv"),
    *("diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.y.process"),
    *("merge.x.driver", "credential.helper", "gpg.program", "gpg.ssh.defaultKeyCommand"),
    *("uploadpack.packObjectsHook", "trailer.x.cmd", "interactive.diffFilter", "pager.status"),
)
COMMANDS = (
    *(("status",), ("doctor",), ("check",), ("regen", "--no-install"), ("tools", "diff")),
    *(("loop", "--dry-run"), ("loop", "--worktrees"), ("launch", "task_execution", "--task", "1")),
    *(("session", "create", "manual"), ("board", "--export", "-"), ("task", "list"), ("inspect",)),
    *(("call", "ralph:list_tasks"), ("export",), ("trust",), ("init", "."), ("connect", "claude")),
)


@pytest.mark.thorough
def test_no_command_starts_a_program_that_an_archive_names(tmp_path: Path) -> None:
    project = repository(tmp_path)
    root, mark = project.root, tmp_path / "started"
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        write_files(root / ".git/hooks", [(name, f"#!/bin/sh\ntouch '{mark}'\n")])
        (root / ".git/hooks" / name).chmod(0o755)
    settings = {**dict.fromkeys(PROGRAMS, f"touch '{mark}'; cat"), "commit.gpgSign": "true"}
    settings |= {"alias.status": f"!touch '{mark}'", "submodule.s.update": f"!touch '{mark}'"}
    settings |= {"remote.origin.url": f"ext::touch {mark}", "protocol.ext.allow": "always"}
    more = f"[core]\n\tfsmonitor = touch '{mark}'\n[filter \"x\"]\n\tclean = touch '{mark}'\n"
    write_files(root / ".git", [("info/attributes", "* filter=x diff=x\n"), ("more", more)])
    write_files(root / ".git", [("config.worktree", more)])
    write_files(root, [(".gitattributes", "* filter=x diff=x merge=x\n*.py filter=y\n")])
    for key, value in {**settings, "extensions.worktreeConfig": "true"}.items():
        git(root, "config", "--file", ".git/config", key, value)
    git(root, "config", "--file", ".git/config", "include.path", "more")
    (tmp_path / "config").mkdir()
    more_variables = {**project.environment, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for path in (root / ".ralph").rglob("*.toml"):
        path.touch()  # makes git compare it with the index
    for words in COMMANDS:
        ralphgen(*words, cwd=root, stdin="", more=more_variables)
        assert not mark.exists(), words


@pytest.mark.thorough
def test_the_loop_names_each_hook_that_does_not_run(tmp_path: Path) -> None:
    project = repository(tmp_path)
    for name in ("pre-commit", "commit-msg"):
        write_files(project.root / ".git/hooks", [(name, "#!/bin/sh\nexit 1\n")])
        (project.root / ".git/hooks" / name).chmod(0o755)
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    for name in ("pre-commit", "commit-msg"):
        assert f"note: hook {name} does not run in the loop; make it a check\n" in done.stderr
    assert 'note: "message" of [loop] sets the message of its commits\n' in done.stderr


@pytest.mark.thorough
def test_a_worktree_of_a_bare_repository_is_merged_into(tmp_path: Path) -> None:
    project = repository(tmp_path)
    settings = project.root / ".ralph/ralphgen.toml"
    place = '[database]\npath = "../rows.db"\n'  # a bare repository has no main tree
    settings.write_text(settings.read_text(encoding="utf-8") + place, encoding="utf-8")
    shutil.copy(project.root / ".ralph/db/ralph.db", tmp_path / "rows.db")
    assert 0 == ralphgen("regen", project.root, "--no-install").returncode
    git(project.root, "commit", "--quiet", "--all", "--message", "rows elsewhere")
    git(tmp_path, "clone", "--quiet", "--bare", "p", "bare.git")
    branch = git(project.root, "symbolic-ref", "--short", "HEAD").strip()
    git(tmp_path / "bare.git", "worktree", "add", "--quiet", str(tmp_path / "w"), branch)

    assert_merged(trusted(project, tmp_path / "w"))


@pytest.mark.thorough
def test_a_project_that_is_a_submodule_is_merged_into(tmp_path: Path) -> None:
    project = repository(tmp_path)
    branch = git(project.root, "symbolic-ref", "--short", "HEAD").strip()
    outer = tmp_path / "outer"
    git(tmp_path, "init", "--quiet", "outer")
    add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"]
    git(outer, *add, str(project.root), "inner")
    git(outer / "inner", "switch", "--quiet", branch)

    assert_merged(trusted(project, outer / "inner"))


@pytest.mark.thorough
def test_several_projects_in_one_repository_are_merged_into(tmp_path: Path) -> None:
    both = [repository(tmp_path / name) for name in ("a", "b")]
    git(tmp_path, "init", "--quiet")
    for project in both:
        (project.root / ".git").rename(project.root.with_name("git of before"))
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    rest = "git of before\nclaude\nplan*\n.ralph/db\n.ralph/backups\n"
    (tmp_path / ".git/info/exclude").write_text(rest, encoding="utf-8")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "both")
    for project in both:
        trusted(project, project.root)
        done = project.loop("--worktrees")
        assert 0 == done.returncode, done.stderr

    files = git(tmp_path, "ls-tree", "-r", "--name-only", "HEAD").split()
    assert {"a/p/task-1.txt", "b/p/task-1.txt"} <= {*files}
