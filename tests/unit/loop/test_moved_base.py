"""`ralphgen loop --worktrees` while the base branch moves past its merges."""

from pathlib import Path

import pytest
from command_line import ralphgen
from lanes import shortened
from loop_projects import LoopProject
from merging_projects import base, with_origin
from planned_agent import Steps
from proved_projects import check, git, python, write_files

pytestmark = pytest.mark.slow

PROTECTS = '[done]\nprotect = ["tests/**"]\n'
TEST = ("tests/run.py", "import sys; sys.exit(int(open('code.txt').read()))")
CHECK = check("t", *python("import runpy; runpy.run_path('tests/run.py')")) + PROTECTS
PROVES: Steps = ["check", "done"]


def repository(folder: Path, tasks: int, config: str = CHECK) -> LoopProject:
    """A project whose protected test passes, in a repository of a user."""
    write_files(folder / "p", [TEST])
    project = LoopProject(folder, tasks, {}, config=config, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    return project


def in_shell(project: LoopProject, *lines: str) -> list[str]:
    """The step of an agent that leaves its worktree."""
    start = f"cd '{project.root}'; git() {{ command git -c user.name=a -c user.email=a@b \"$@\"; }}"
    return ["run", "sh", "-ec", "\n".join([start, *lines])]


WEAKENS = "echo pass > tests/run.py"
MOVES = {
    "commit": (WEAKENS, "git commit -qam weaker"),
    "file": (WEAKENS,),
    "merge": ("git merge -q ralph/task-1",),
    "hidden": (
        "git update-index --skip-worktree tests/run.py",
        "blob=$(echo pass | git hash-object -w --stdin)",
        "export GIT_INDEX_FILE=.git/other; git read-tree HEAD",
        "git update-index --cacheinfo 100644,$blob,tests/run.py",
        "commit=$(git commit-tree -m weaker -p HEAD $(git write-tree))",
        "git update-ref refs/heads/$(git branch --show-current) $commit",
    ),
    "settings": ("echo >> .ralph/ralphgen.toml", "git commit -qam weaker"),
    "rules": ("rm .ralph/mcp/project.json", "git commit -qam weaker"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("way", shortened(MOVES, "commit"))
def test_protected_change_of_an_agent_past_the_loop_stops_the_merges(
    tmp_path: Path, way: str
) -> None:
    project = repository(tmp_path, 2)
    own: Steps = []
    if way == "merge":
        own = [
            ["write", "tests/run.py", "pass"],
            ["run", "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "w"],
        ]
    moves: Steps = ["begin", *own, in_shell(project, *MOVES[way]), *PROVES, "blocked"]
    project.follow({"1": [moves], "*": [["begin", ["write", "a.txt", "a"], *PROVES]]})
    done = project.loop("--worktrees")

    assert 0 != done.returncode
    assert f'protected files were changed in "{project.root}" while an agent worked' in done.stderr
    assert "a.txt" not in git(project.root, "ls-files").split()
    assert [1] == [line["task"] for line in project.log("begin")]

    assert 0 != project.loop("--worktrees").returncode
    assert [1] == [line["task"] for line in project.log("begin")]


@pytest.mark.thorough
def test_accepted_change_lets_the_loop_continue(tmp_path: Path) -> None:
    project = repository(tmp_path, 1)
    moves = in_shell(project, *MOVES["commit"])
    project.follow({"*": [["begin", moves, ["write", "a.txt", "a"], *PROVES]]})
    stopped = project.loop("--worktrees")
    trusted = ralphgen("trust", "--yes", "--project", project.root)
    done = project.loop("--worktrees")

    assert "merge pending: protected files were changed" in stopped.stderr
    assert "changed tests/run.py" in trusted.stderr
    assert 0 == done.returncode, done.stderr
    assert "a.txt" in git(project.root, "ls-files").split()


@pytest.mark.thorough
def test_commit_of_the_user_while_the_loop_runs_is_named_checked_and_kept(tmp_path: Path) -> None:
    project = repository(tmp_path, 2)
    commits = in_shell(project, "echo b > b.txt", "git add b.txt", "git commit -qm 'A fix'")
    works: Steps = ["begin", ["write", "task-{task}.txt", "a"], *PROVES]
    project.follow({"1": [[*works[:1], commits, *works[1:]]], "*": [works]})
    done = project.loop("--worktrees")
    lines = [line for line in done.stderr.splitlines() if "was changed by others" in line]

    assert 0 == done.returncode, done.stderr
    assert 1 == len(lines)
    assert lines[0].endswith(" A fix")
    assert {"b.txt", "task-1.txt", "task-2.txt"} <= {*git(project.root, "ls-files").split()}


@pytest.mark.thorough
def test_base_that_an_agent_moves_back_is_named_with_the_lost_commit(tmp_path: Path) -> None:
    project = repository(tmp_path, 2)
    write_files(project.root, [("fix.txt", "a")])
    git(project.root, "add", "fix.txt")
    git(project.root, "commit", "--quiet", "--message", "A fix")
    lost = base(project.root)
    back = in_shell(project, "git reset -q --keep HEAD~1")
    works: Steps = ["begin", ["write", "task-{task}.txt", "a"], *PROVES]
    project.follow({"1": [["begin", back, "blocked"]], "*": [works]})
    done = project.loop("--worktrees")
    lines = [line for line in done.stderr.splitlines() if "was changed by others" in line]

    assert [True] == [f"without {lost}" in line for line in lines], done.stderr
    assert "task-2.txt" in git(project.root, "ls-files").split()


@pytest.mark.thorough
def test_base_that_fails_after_a_foreign_commit_gets_no_session(tmp_path: Path) -> None:
    project = repository(tmp_path, 2)
    commits = in_shell(project, "echo 1 > code.txt", "git commit -qam broken")
    project.follow({"1": [["begin", commits, "blocked"]], "*": [["begin", *PROVES]]})
    done = project.loop("--worktrees")

    assert 1 == done.returncode
    assert 'check "t" already fails on ' in done.stderr
    assert [1] == [line["task"] for line in project.log("begin")]


@pytest.mark.parametrize("by_hand", shortened([False, True]))
def test_pull_of_protected_files_while_the_loop_runs(tmp_path: Path, *, by_hand: bool) -> None:
    project = repository(tmp_path, 2, f'{CHECK}[loop]\nremote = "origin"\n')
    with_origin(project.root)
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(tmp_path / "origin"), str(other))
    write_files(other, [(TEST[0], f"{TEST[1]}  # More.\n")])
    git(other, "commit", "--quiet", "--all", "--message", "test")
    pushes = ["run", "git", "-C", str(other), "push", "--quiet"]
    pulls = [in_shell(project, "git pull -q origin HEAD")] * by_hand
    works: Steps = ["begin", ["write", "task-{task}.txt", "a"], *PROVES]
    project.follow({"1": [[*works[:1], pushes, *pulls, *works[1:]]], "*": [works]})
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "# More." in git(project.root, "show", "HEAD:tests/run.py")
    assert {"task-1.txt", "task-2.txt"} <= {*git(project.root, "ls-files").split()}
    assert by_hand == ("was changed by others" in done.stderr)
    assert base(project.root) == base(tmp_path / "origin")
