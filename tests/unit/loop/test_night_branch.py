"""`ralphgen loop --worktrees --onto BRANCH`: work comes into that branch, and into no other."""

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import ran
from driving import query
from loop_projects import LoopProject
from merging_projects import SETTLED, base, branch_of, closed, say, with_origin
from planned_agent import Steps
from proved_projects import TESTS, git

from ralphgen.loop.trees import create_target, prepare, worktree_notes

pytestmark = pytest.mark.slow

NIGHT = "night/2026-11-26"
WORKS: Steps = ["begin", ["write", "task-{task}.txt", "done"], "check", "done"]


def repository(
    folder: Path, tasks: int, plan: dict[str, list[Steps]], config: str = TESTS
) -> LoopProject:
    project = LoopProject(folder, tasks, plan, config=config, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    return project


def files_on(project: LoopProject, branch: str) -> set[str]:
    listed = git(project.root, "ls-tree", "--name-only", branch).split("\n")
    return {name for name in listed if name.startswith("task-")}


def test_work_comes_into_the_named_branch_and_main_never_moves(tmp_path: Path) -> None:
    project = repository(tmp_path, 2, {"*": [WORKS]})
    main, before = branch_of(project.root), base(project.root)

    done = project.loop("--worktrees", "--onto", NIGHT)

    assert 0 == done.returncode, done.stderr
    assert f'work is merged into the branch "{NIGHT}"' in done.stderr
    assert {"task-1.txt", "task-2.txt"} == files_on(project, NIGHT)
    assert (before, main) == (base(project.root), branch_of(project.root))
    assert not (project.root / "task-1.txt").exists()
    assert before == git(project.root, "merge-base", NIGHT, main).strip()


def test_a_second_task_is_proved_against_the_branch_that_it_began_at(tmp_path: Path) -> None:
    project = repository(tmp_path, 2, {"*": [WORKS]})
    query(project.root, "UPDATE tasks SET depends_on = '[1]' WHERE id = 2")

    project.loop("--worktrees", "--onto", NIGHT)

    first, second = git(project.root, "rev-list", "--merges", "--reverse", NIGHT).split()
    assert first == git(project.root, "rev-parse", f"{second}^2^").strip()
    assert "task-2.txt" == git(project.root, "diff", "--name-only", f"{second}^2^!").strip()


def test_a_dry_run_creates_no_branch(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})

    done = project.loop("--worktrees", "--onto", NIGHT, "--dry-run")

    assert f'the branch "{NIGHT}"' in done.stderr
    assert "" == git(project.root, "branch", "--list", NIGHT)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--onto", NIGHT), 2, "--onto requires --worktrees"),
        (("--worktrees", "--onto", "ralph/task-1"), 1, 'branches in "ralph/" are for tasks'),
        (("--worktrees", "--onto", "a..b"), 1, 'invalid branch "a..b"'),
        (("--worktrees", "--onto", "-d"), 1, 'invalid branch "-d"'),
    ],
)
def test_a_name_that_cannot_be_the_target_is_refused(
    tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})

    done = project.loop(*options)

    assert (code, []) == (done.returncode, project.log("begin"))
    assert words in done.stderr


def test_a_repository_without_a_commit_has_no_target(tmp_path: Path) -> None:
    project = LoopProject(tmp_path, 1, {"*": [WORKS]}, config=TESTS)
    git(project.root, "init", "--quiet")

    done = project.loop("--worktrees", "--onto", NIGHT)

    assert 1 == done.returncode
    assert "has no commits\nhint: commit the project first" in done.stderr


@pytest.mark.parametrize("where", ["the project", "another worktree"])
def test_a_branch_that_is_checked_out_is_refused(tmp_path: Path, where: str) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    branch = branch_of(project.root)
    if where == "another worktree":
        branch = NIGHT
        git(project.root, "worktree", "add", "--quiet", "-b", NIGHT, str(tmp_path / "other"))

    done = project.loop("--worktrees", "--onto", branch)

    assert (1, []) == (done.returncode, project.log("begin"))
    assert f'"{branch}" is checked out in "' in done.stderr


def test_an_agent_that_checks_the_branch_out_does_not_hold_the_merge_up(tmp_path: Path) -> None:
    steps: Steps = [*WORKS, ["run", "git", "checkout", "--quiet", "--force", NIGHT]]
    project = repository(tmp_path, 2, {"1": [steps], "*": [WORKS]})

    done = project.loop("--worktrees", "--onto", NIGHT)

    assert 0 == done.returncode, done.stderr
    assert {"task-1.txt", "task-2.txt"} == files_on(project, NIGHT)


def test_the_remote_gets_the_branch_and_no_other(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]}, f'{TESTS}\n[loop]\nremote = "origin"\n')
    with_origin(project.root)
    origin, main = tmp_path / "origin", branch_of(project.root)
    before = git(origin, "rev-parse", main)

    done = project.loop("--worktrees", "--onto", NIGHT)

    assert 0 == done.returncode, done.stderr
    assert git(project.root, "rev-parse", NIGHT) == git(origin, "rev-parse", NIGHT)
    assert before == git(origin, "rev-parse", main)
    assert f"Deliver: gh pr create --base {main} --head {NIGHT} " in done.stderr


def test_work_that_waits_for_the_branch_is_not_merged_into_main(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    create_target(project.root, NIGHT)
    tree = prepare(project.root, 1, 1, SETTLED, say, onto=NIGHT)
    (tree.root / "task-1.txt").write_text("done", encoding="utf-8")
    closed(project.root, tree, 1)

    on_main = project.loop("--worktrees")
    again = project.loop("--worktrees", "--onto", NIGHT)

    assert f'task 1 is not merged here: its work is for "{NIGHT}"' in on_main.stderr
    assert set() == files_on(project, "HEAD")
    assert 0 == again.returncode, again.stderr
    assert {"task-1.txt"} == files_on(project, NIGHT)


def test_each_merge_carries_trailers_that_git_reads(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    project.loop("--worktrees", "--onto", NIGHT)
    ((session,),) = query(project.root, "SELECT id FROM ralphgen_sessions")

    trailers = git(project.root, "log", "-1", "--format=%(trailers:only)", NIGHT).split("\n")

    tree = git(project.root, "rev-parse", f"{NIGHT}^{{tree}}").strip()
    assert trailers[:3] == [
        "Ralphgen-Task: 1",
        f"Ralphgen-Session: {session}",
        f"Ralphgen-Proof: tests=0 tree={tree}",
    ]


def test_trailers_follow_the_configured_ones_and_no_title_forges_one(tmp_path: Path) -> None:
    message = '[loop]\nmessage = "{title}\\n\\nReviewed-by: nobody"\n'
    project = repository(tmp_path, 1, {"*": [WORKS]}, f"{TESTS}\n{message}")
    query(project.root, "UPDATE tasks SET title = 'x' || char(10,10) || 'Ralphgen-Task: 9'")

    project.loop("--worktrees", "--onto", NIGHT)

    trailers = git(project.root, "log", "-1", "--format=%(trailers:only)", NIGHT).split("\n")
    names = [line.partition(":")[0] for line in trailers if line]
    own = [f"Ralphgen-{name}" for name in ("Task", "Session", "Proof", "Batch")]
    assert ["Reviewed-by", *own] == names
    assert "Ralphgen-Task: 1" in trailers


def test_the_report_names_each_task_and_holds_its_texts_inert(tmp_path: Path) -> None:
    asks: Steps = ["begin", ["blocked", "see #7 `and` @someone"]]
    project = repository(tmp_path, 2, {"1": [WORKS], "2": [asks]})
    query(project.root, "UPDATE tasks SET title = 'fixes #1 @all <b> ``x``' WHERE id = 1")

    done = project.loop("--worktrees", "--onto", NIGHT)

    (report,) = (project.root / ".ralph/mcp/sessions").glob("loop-*.md")
    text = report.read_text(encoding="utf-8")
    ((session,),) = query(project.root, "SELECT id FROM ralphgen_sessions WHERE task_id = 1")
    assert "``` fixes #1 @all <b> ``x`` ```" in text
    assert f"- undo its files and rows: `ralphgen undo {session} --code --onto {NIGHT}`" in text
    assert "- checks: `tests` passed" in text
    assert "- files: `task-1.txt`" in text
    assert "- cost: $0.25 (1 session)" in text
    assert "- task 2, `Task 2`: blocked: ``see #7 `and` @someone``" in text
    last = done.stderr.splitlines()[-1]
    branch = branch_of(project.root)
    assert f"gh pr create --base {branch} --head {NIGHT} --body-file {report}" in last
    assert 0o600 == report.stat().st_mode & 0o777


def test_the_report_of_the_second_loop_covers_the_branch_and_pushes_it(tmp_path: Path) -> None:
    project = repository(tmp_path, 3, {"*": [WORKS]})
    with_origin(project.root)
    options = ("--worktrees", "--onto", NIGHT, "--max-tasks", "1")
    project.loop(*options)
    project.loop(*options)
    sessions = dict(query(project.root, "SELECT task_id, id FROM ralphgen_sessions"))
    undone = ("--code", "--onto", NIGHT, "--yes", "--project", project.root)
    ran("undo", sessions[2], *undone)
    first = git(project.root, "rev-list", "--merges", "--reverse", NIGHT).split()[0]
    query(project.root, "UPDATE tasks SET status = 'pending' WHERE id = 3")

    done = project.loop(*options)

    report = done.stderr.partition("Report: ")[2].splitlines()[0]
    text = Path(report).read_text(encoding="utf-8")
    undo = f"ralphgen undo {sessions[1]} --code --onto {NIGHT}"
    earlier = text.partition(f"\n## Earlier work on `{NIGHT}`\n\n")[2].splitlines()
    assert "## Task 3" in text
    assert [f"- task 1, `Task 1`: `{first[:12]}`; undo it: `{undo}`"] == earlier
    last = done.stderr.splitlines()[-1]
    assert f"Deliver: git push --set-upstream origin {NIGHT} && gh pr create --base " in last


def test_the_printed_undo_takes_the_work_out(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    project.loop("--worktrees", "--onto", NIGHT)
    (report,) = (project.root / ".ralph/mcp/sessions").glob("loop-*.md")
    (command,) = re.findall("`ralphgen (undo .*)`", report.read_text(encoding="utf-8"))

    ran(*shlex.split(command), "--yes", "--project", project.root)

    assert set() == files_on(project, NIGHT)
    assert {1: "draft"} == project.statuses()


def test_the_summary_names_the_undo_of_the_code_and_only_unmerged_work(tmp_path: Path) -> None:
    asks: Steps = ["begin", ["blocked", "Which?"]]
    project = repository(tmp_path, 3, {"2": [asks], "*": [WORKS]})

    done = project.loop("--worktrees", "--onto", NIGHT, "--max-tasks", "2")
    (command,) = re.findall("Undo:   ralphgen (.*)", ran("status", "--project", project.root))
    facts = json.loads(ran("status", "--json", "--project", project.root))
    sessions = dict(query(project.root, "SELECT task_id, id FROM ralphgen_sessions"))

    assert ["ralph/task-2-1"] == git(project.root, "branch", "--list", "ralph/*").split()
    assert [] == facts["unmerged_branches"]
    assert "unmerged" not in done.stderr
    assert "unmerged" not in "\n".join(worktree_notes(project.root))
    undo = f"ralphgen undo {sessions[1]} --code --onto {NIGHT}"
    assert [f"ralphgen undo {sessions[2]}", undo] == facts["undo"]

    project.loop("--worktrees", "--onto", NIGHT)
    (command,) = re.findall("Undo:   ralphgen (.*)", ran("status", "--project", project.root))
    assert {"task-1.txt", "task-3.txt"} == files_on(project, NIGHT)
    ran(*shlex.split(command), "--yes", "--project", project.root)
    assert {"task-1.txt"} == files_on(project, NIGHT)


def test_without_a_named_branch_there_is_a_report_and_no_pull_request(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})

    done = project.loop("--worktrees")

    assert 1 == len([*(project.root / ".ralph/mcp/sessions").glob("loop-*.md")])
    assert "Report: " in done.stderr
    assert "gh pr" not in done.stderr
