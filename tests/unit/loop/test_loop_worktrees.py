"""`ralphgen loop --worktrees`: the base branch only gets work that passes after the merge."""

import json
import os
import signal
import subprocess
import time
from copy import copy
from pathlib import Path
from shutil import rmtree, which

import pytest
from command_line import RALPHGEN, ralphgen
from driving import query
from lifelines import until
from loop_projects import LoopProject, is_running
from making_sessions import client_of
from merging_projects import base, closed, refusing_hook, with_origin
from planned_agent import Steps, agent_command
from proved_projects import TESTS, check, git, python

from ralphgen.loop.trees import prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.sessions.create import create_session, project_items
from ralphgen.sessions.decide import Request

pytestmark = pytest.mark.slow

WORKS: Steps = ["begin", ["write", "task-{task}.txt", "done"], "check", "done"]


def repository(
    folder: Path, tasks: int, plan: dict[str, list[Steps]], *, config: str = TESTS
) -> LoopProject:
    """A project in a user's repository with a clean worktree."""
    project = LoopProject(folder, tasks, plan, config=config, repository=True)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    return project


SETUP = """
import os, subprocess, sys, time
if {skipped!r} not in os.getcwd():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    with open({pids!r} + ".part", "w") as file:
        file.write(f"{{os.getpid()}} {{child.pid}}")
    os.replace({pids!r} + ".part", {pids!r})
    time.sleep(300)
"""
"""A setup that takes five minutes, with what it has started, but where a folder is skipped."""


def comments(project: LoopProject, task: int) -> str:
    rows = query(project.root, "SELECT body FROM task_comments WHERE task_id = ?", task)
    return "\n".join(body for (body,) in rows)


def merged(project: LoopProject) -> list[str]:
    """The files of the tasks in the base branch."""
    return [name for name in git(project.root, "ls-files").split() if name.startswith("task-")]


def linked(project: LoopProject, tree: Path) -> LoopProject:
    """The same project from a new worktree on the branch "dev"."""
    git(project.root, "worktree", "add", "--quiet", "-b", "dev", str(tree))
    other = copy(project)
    other.root = tree
    return other


def test_a_loop_merges_into_the_branch_that_it_is_started_on(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    dev = linked(project, tmp_path / "dev")
    (project.root / "more.txt").write_text("changed in the main worktree", encoding="utf-8")
    begin = git(project.root, "rev-parse", "HEAD")
    where = f'work is merged into the branch "dev" of "{dev.root}"'

    previewed = dev.loop("--worktrees", "--dry-run")
    done = dev.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert where == previewed.stderr.splitlines()[0]
    assert where == done.stderr.splitlines()[0]
    assert ["task-1.txt"] == merged(dev)
    assert begin == git(project.root, "rev-parse", "HEAD")
    assert not (project.root / "task-1.txt").exists()
    assert (project.root / ".ralph/worktrees/1").is_dir()


@pytest.mark.parametrize("options", [(), ("--worktrees",)])
def test_a_loop_on_a_branch_with_the_name_of_a_task_is_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    bad: Steps = ["begin", ["write", "code.txt", "1"]]
    project = repository(tmp_path, 1, {"*": [bad]})
    git(project.root, "switch", "--quiet", "--create", "ralph/task-1")
    before = base(project.root)
    done = [project.loop(*options) for _ in range(2)]

    assert [1, 1] == [one.returncode for one in done]
    assert 'error: "ralph/task-1" is checked out' in done[0].stderr
    assert (before, []) == (base(project.root), project.log("begin"))


def test_a_loop_is_stopped_only_by_changed_files_of_its_branch(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    dev = linked(project, tmp_path / "dev")
    name = git(dev.root, "ls-files", "*.txt").split()[0]
    (dev.root / name).write_text("changed in dev", encoding="utf-8")

    refused = dev.loop("--worktrees")

    assert 1 == refused.returncode
    assert f'files were changed in "{dev.root}", where "dev" is checked out' in refused.stderr


def test_a_loop_without_worktrees_works_in_the_folder_it_is_started_in(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    dev = linked(project, tmp_path / "dev")

    done = dev.loop()

    assert 0 == done.returncode, done.stderr
    assert f'agents work on the branch "dev" of "{dev.root}"' == done.stderr.splitlines()[0]
    assert (dev.root / "task-1.txt").exists()
    assert not (project.root / "task-1.txt").exists()


def test_a_loop_in_a_worktree_without_settings_names_both_branches(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    dev = linked(project, tmp_path / "dev")
    git(dev.root, "rm", "-r", "--quiet", "--cached", ".ralph")
    rmtree(dev.root / ".ralph")
    branch = git(project.root, "branch", "--show-current").strip()

    refused = dev.loop("--worktrees", "--dry-run")

    assert 1 == refused.returncode
    assert f'"{dev.root}" is on "dev"' in refused.stderr
    assert f'"{project.root}", which is on "{branch}"' in refused.stderr


def test_a_waiting_merge_is_left_to_the_branch_that_it_is_for(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    dev = linked(project, tmp_path / "dev")
    tree = prepare(project.root, 1, 1, LoopConfig(), print)
    (tree.root / "task-1.txt").write_text("done", encoding="utf-8")
    closed(project.root, tree, 1)

    other = dev.loop("--worktrees")
    own = project.loop("--worktrees")

    assert 'task 1 is not merged here: its work is for "' in other.stderr
    assert [] == merged(dev)
    assert 0 == own.returncode, own.stderr
    assert ["task-1.txt"] == merged(project)


def test_work_that_only_another_machine_has_does_not_need_the_user(tmp_path: Path) -> None:
    project = repository(tmp_path, 2, {"*": [WORKS]})
    query(project.root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    sql = "INSERT INTO ralphgen_merges (task_id, work, target, entered) VALUES (2, ?, ?, ?)"
    query(project.root, sql, "0" * 40, base(project.root), "2026-11-28T20:00:00Z")

    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "task 1: merged" in done.stderr
    assert "merging     1 waiting" in done.stderr


def test_a_session_is_not_done_after_a_change_of_settings_in_another_worktree(
    tmp_path: Path,
) -> None:
    project = repository(tmp_path, 1, {})
    dev = linked(project, tmp_path / "dev")
    tree = prepare(dev.root, 1, 1, LoopConfig(), print)
    asked = Request("task_execution", task=1)
    session = create_session(dev.root, asked, say=print, ask=lambda _: False, work_tree=tree.root)

    with client_of(session.mcp_config) as client:
        refusals = []
        for root in (dev.root, project.root):
            settings = root / ".ralph/ralphgen.toml"
            before = settings.read_text(encoding="utf-8")
            settings.write_text(f"{before}# more\n", encoding="utf-8")
            client.call("run_checks")
            refusals.append(client.refusal("set_task_status", status="done", summary="Done."))
            settings.write_text(before, encoding="utf-8")
        client.call("run_checks")
        client.call("set_task_status", status="done", summary="Done.")

    assert ["protected files were changed, put them back" in one for one in refusals] == [
        True,
        True,
    ]


def test_several_agents_work_concurrently_and_all_passed_work_is_merged(tmp_path: Path) -> None:
    project = repository(tmp_path, 5, {"*": [WORKS]})
    done = project.loop("--parallel", "3", "--worktrees")
    commits = query(project.root, "SELECT merged FROM ralphgen_sessions")
    folders = {Path(line["folder"]).name for line in project.log("begin")}

    assert 0 == done.returncode, done.stderr
    assert {"done"} == {*project.statuses().values()}
    assert [f"task-{task}.txt" for task in range(1, 6)] == merged(project)
    assert folders <= {"1", "2", "3"}
    for (commit,) in commits:
        git(project.root, "merge-base", "--is-ancestor", commit, "HEAD")
    assert "" == git(project.root, "branch", "--list", "ralph/*")
    assert [] == project.held()


PROTECTS = '[done]\nprotect = ["tests/**"]\n'


def test_changes_after_done_are_kept_on_a_branch_that_the_loop_names(tmp_path: Path) -> None:
    late = [
        ["write", "tests/run.sh", "true"],
        ["write", "task-1.txt", "BROKEN("],
        ["write", ".ralph/ralphgen.toml", "# weaker"],
        ["run", "git", "commit", "--quiet", "--all", "--message", "late"],
    ]
    project = repository(tmp_path, 1, {"*": [[*WORKS, *late]]}, config=TESTS + PROTECTS)
    settings = git(project.root, "show", "HEAD:.ralph/ralphgen.toml")
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert "done" == git(project.root, "show", "HEAD:task-1.txt")
    assert settings == git(project.root, "show", "HEAD:.ralph/ralphgen.toml")
    assert "tests/run.sh" not in git(project.root, "ls-files").split()
    assert "late" not in git(project.root, "log", "--format=%s").splitlines()
    assert 'changed after it was done: kept as "ralph/task-1-late"' in done.stderr
    assert "unmerged    ralph/task-1-late" in done.stderr
    assert "BROKEN(" == git(project.root, "show", "ralph/task-1-late:task-1.txt")


def test_work_without_a_check_is_merged_and_marked(tmp_path: Path) -> None:
    steps: Steps = ["begin", ["write", "task-1.txt", "x"], "done", ["write", "task-1.txt", "late"]]
    project = repository(tmp_path, 1, {"*": [steps]}, config="")
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert " (no check)" in done.stderr
    assert "x" == git(project.root, "show", "HEAD:task-1.txt")


def test_task_that_is_set_to_done_past_the_server_is_not_merged(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {})
    sql = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    sql += "c.execute(\"UPDATE tasks SET status = 'done'\"); c.commit()"
    forges = ["run", *python(sql), str(project.root / ".ralph/db/ralph.db")]
    project.follow({"1": [["begin", ["write", "task-1.txt", "x"], forges], ["blocked"]]})
    project.loop("--worktrees")

    assert [] == merged(project)
    assert "It was set to done without the server" in comments(project, 1)


def test_check_of_dela_runs_on_the_private_checkouts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    recipe = f"\t@basename $$PWD >> {log}\n\t@test -f code.txt && ! grep -q BAD task-*.txt\n"
    (tmp_path / "p").mkdir()
    (tmp_path / "p/Makefile").write_text(f"test:\n{recipe}", encoding="utf-8")
    config = 'kits = ["ralph", "dela"]\n' + check("t", dela="test")
    bad: Steps = ["begin", ["write", "task-{task}.txt", "BAD"], "check", "blocked"]
    good: Steps = ["begin", ["write", "task-{task}.txt", "x"], ["meet", 2], "check", "done"]
    command = json.dumps(agent_command(tmp_path / "plan.json"))
    config += f"[loop.agents.robot]\ncommand = {command}\n"
    project = repository(tmp_path, 3, {"1": [bad], "*": [good]}, config=config)
    done = project.loop("--worktrees", "--parallel", "3", "--agent", "robot")

    assert 5 == done.returncode, done.stderr
    assert {1: "blocked", 2: "done", 3: "done"} == project.statuses()
    assert ["task-2.txt", "task-3.txt"] == merged(project)
    assert "task 2 done in" in done.stderr
    assert 2 == done.stderr.count("(checks: t passed")
    assert "files were changed since" not in done.stderr
    assert {"1-checks", "2-checks", "3-checks", "merge"} == {
        *log.read_text(encoding="utf-8").split()
    }


def test_a_conflict_gives_the_task_back_and_keeps_the_work_until_it_is_resolved(
    tmp_path: Path,
) -> None:
    """Both write the same file; the next session resolves the conflict of the second one."""
    ours: Steps = ["begin", ["write", "both.txt", "{task}"], ["meet", 2], "check", "done"]
    theirs = ["run", "git", "checkout", "--quiet", "HEAD^1", "--", "both.txt"]
    again: Steps = ["begin", ["run", "grep", "-c", "<<<<<<<", "both.txt"], theirs, "check", "done"]
    project = repository(tmp_path, 2, {"*": [ours, again]})
    done = project.loop("--parallel", "2", "--worktrees")
    (late,) = {line["task"] for line in project.log("begin") if project.attempts(line["task"]) == 2}

    assert 0 == done.returncode, done.stderr
    assert {1: "done", 2: "done"} == project.statuses()
    assert f"task {late}: not merged: conflict with the base branch in both.txt" in done.stderr
    assert "0 1\n" == project.log("ran")[0]["text"]
    assert f"kept on ralph/task-{late}-1" in comments(project, late)
    assert "" == git(project.root, "branch", "--list", "ralph/*")  # the next session continued it
    assert str(3 - late) == git(project.root, "show", "HEAD:both.txt")


def test_a_merge_waits_for_the_users_changes(tmp_path: Path) -> None:
    project = repository(tmp_path, 2, {})
    mine = str(project.root / "code.txt")
    plan = {"1": [["begin", ["write", mine, "0\n"], *WORKS[1:]]], "*": [WORKS]}
    project.follow(plan)
    query(project.root, "UPDATE tasks SET depends_on = '[1]' WHERE id = 2")
    left = project.loop("--worktrees")

    assert 5 == left.returncode, left.stderr
    assert "task 1: merge pending: files were changed in" in left.stderr
    assert "unmerged    ralph/task-1\n" in left.stderr
    assert ({1: "done", 2: "pending"}, []) == (project.statuses(), merged(project))
    git(project.root, "checkout", "--quiet", "code.txt")
    done = project.loop("--worktrees")
    assert 0 == done.returncode, done.stderr
    assert ["task-1.txt", "task-2.txt"] == merged(project)
    assert [] == project.held()


def test_refused_push_ends_the_loop_with_5_and_costs_no_attempt(tmp_path: Path) -> None:
    project = repository(tmp_path, 3, {"*": [WORKS]}, config=f'{TESTS}[loop]\nremote = "origin"\n')
    with_origin(project.root)
    refusing_hook(tmp_path / "origin", "update")
    refused = project.loop("--worktrees")

    assert 5 == refused.returncode, refused.stderr
    assert '"origin" rejects the push of "' in refused.stderr
    assert "hook declined); not on Fridays" in refused.stderr
    begun = len(project.log("begin"))
    assert begun < 3  # a worker takes one more task while the push is made
    again = project.loop("--worktrees")
    assert (5, begun) == (again.returncode, len(project.log("begin"))), again.stderr

    (tmp_path / "origin/hooks/update").unlink()
    done = project.loop("--worktrees")
    assert 0 == done.returncode, done.stderr
    assert ["task-1.txt", "task-2.txt", "task-3.txt"] == merged(project)
    assert {1: ["done"], 2: ["done"], 3: ["done"]} == project.outcomes()
    assert base(project.root) == base(tmp_path / "origin")


def test_unreachable_remote_lets_merges_wait_and_sessions_begin(tmp_path: Path) -> None:
    goes: Steps = ["begin", ["run", "mv", str(tmp_path / "origin"), str(tmp_path / "away")]]
    plan = {"1": [[*goes, *WORKS[1:]]], "*": [WORKS]}
    project = repository(tmp_path, 2, plan, config=f'{TESTS}[loop]\nremote = "origin"\n')
    with_origin(project.root)
    left = project.loop("--worktrees")

    assert 5 == left.returncode, left.stderr
    assert 'merge pending: the remote "origin" cannot be reached' in left.stderr
    assert [1, 2] == [line["task"] for line in project.log("begin")]
    absent = project.loop("--worktrees")
    assert (1, 2) == (absent.returncode, len(project.log("begin")))
    assert "does not appear to be a git repository" in absent.stderr
    (tmp_path / "away").rename(tmp_path / "origin")
    done = project.loop("--worktrees")
    assert 0 == done.returncode, done.stderr
    assert ["task-1.txt", "task-2.txt"] == merged(project)


def test_commits_have_the_message_of_the_settings(tmp_path: Path) -> None:
    message = '[loop]\nmessage = "chore: {title} (#{task})"\n'
    project = repository(tmp_path, 1, {"*": [WORKS]}, config=f"{TESTS}{message}")
    project.loop("--worktrees")

    assert ["chore: Task 1 (#1)"] * 2 == git(project.root, "log", "-2", "--format=%s").splitlines()


def test_signing_without_a_key_stops_before_the_first_session(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    git(project.root, "config", "commit.gpgSign", "true")
    git(project.root, "config", "user.signingKey", "no such key")
    done = project.loop("--worktrees")

    assert 1 == done.returncode
    assert "git cannot sign a commit" in done.stderr
    assert "gpg" in done.stderr
    assert [] == project.log("begin")


def test_setup_that_fails_stops_immediately_with_its_output(tmp_path: Path) -> None:
    program = "import os, sys; sys.exit('no registry' if '/merge' not in os.getcwd() else 0)"
    setup = f"[loop]\nsetup = {json.dumps([python(program)])}\n"
    project = repository(tmp_path, 2, {"*": [WORKS]}, config=f"{TESTS}{setup}")
    add_to_record(project.root, [item.digest for item in project_items(project.root)])
    began = time.monotonic()
    done = project.loop("--worktrees")

    assert 1 == done.returncode
    assert "no registry\n" in done.stderr
    assert 1 == done.stderr.count("no session could be created")
    assert [] == project.log("begin")
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (0, 0) == attempts(project)
    assert time.monotonic() - began < 60


def test_check_that_rewrites_a_tracked_file_is_named_before_the_first_session(
    tmp_path: Path,
) -> None:
    config = check("format", *python("open('code.txt', 'a').write('0')"))
    project = repository(tmp_path, 1, {"*": [WORKS]}, config=config)
    done = project.loop("--worktrees")

    assert 1 == done.returncode
    assert 'files were changed while the checks ran: "code.txt"' in done.stderr
    assert [] == project.log("begin")


@pytest.mark.thorough
@pytest.mark.parametrize("file", ["code.txt", "coverage.xml"])
def test_check_that_rewrites_files_costs_no_attempt_and_stops_the_loop(
    tmp_path: Path, file: str
) -> None:
    """Without worktrees; a file that git does not track is rewritten from the second run on."""
    config = check("report", *python(f"open({file!r}, 'a').write('0')"))
    project = repository(tmp_path, 3, {"*": [WORKS]}, config=config)
    done = project.loop()
    (last,) = {line["task"] for line in project.log("begin")} - {
        task for task, status in project.statuses().items() if status == "done"
    }

    assert 1 == done.returncode, done.stderr
    assert 'check "report" gives no proof: ' in done.stderr
    assert f'"{file}"' in done.stderr
    assert "pending" == project.statuses()[last]
    assert (0, 0) == attempts(project)
    assert ["environment failed"] == project.outcomes()[last]


ON_A_SMALL_DISK = """
set -e
cp -a "$1" "$1.kept"
mount -t tmpfs -o size=24m none "$1"
cp -a "$1.kept/." "$1"
"$2" loop --project "$1" && code=0 || code=$?
rm "$1/fill"
cp -a "$1/.ralph" "$1.kept/after"
exit $code
"""


@pytest.mark.thorough
def test_full_disk_of_the_project_costs_no_attempt_and_releases_the_task(tmp_path: Path) -> None:
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    if not which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("a disk cannot be mounted for one process here")
    project = repository(tmp_path, 3, {})
    fills = ["run", "dd", "if=/dev/zero", f"of={project.root}/fill", "bs=64k"]
    project.follow({"*": [["begin", fills, "check", "done"]]})
    done = subprocess.run(
        [*alone, "sh", "-c", ON_A_SMALL_DISK, "sh", str(project.root), str(RALPHGEN)],
        env={**os.environ, **project.environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    rmtree(project.root / ".ralph")
    (tmp_path / "p.kept/after").rename(project.root / ".ralph")

    assert 1 == done.returncode, done.stderr
    assert "no space left on device" in done.stderr
    assert 1 == len(project.log("begin"))
    assert {1: "pending", 2: "pending", 3: "pending"} == project.statuses()
    assert (0, 0) == attempts(project)


@pytest.mark.parametrize("options", [(), ("--worktrees",)])
@pytest.mark.parametrize("how", ["is removed", "exits with 127"])
def test_agent_that_vanishes_stops_immediately_and_costs_no_attempt(
    tmp_path: Path, options: tuple[str, ...], how: str
) -> None:
    removes: Steps = [["run", "rm", str(tmp_path / "claude")], *WORKS]
    plan = {"1": [removes]} if how == "is removed" else {"1": [WORKS], "2": [[["exit", 127]]]}
    project = repository(tmp_path, 3, plan)
    done = project.loop(*options)
    expected = '"claude" is not on PATH' if how == "is removed" else "ended with exit code 127"

    assert 1 == done.returncode, done.stderr
    assert expected in done.stderr
    assert {1: "done", 2: "pending", 3: "pending"} == project.statuses()
    assert (0, 0) == attempts(project)


def attempts(project: LoopProject) -> tuple[int, int]:
    """How many claims count an attempt, and how many sessions hold a task."""
    rows = query(project.root, "SELECT attempts FROM ralphgen_claims WHERE attempts > 0")
    return len(rows), len(project.held())


def test_it_refuses_a_base_into_which_nothing_could_be_merged(tmp_path: Path) -> None:
    project = repository(tmp_path, 1, {"*": [WORKS]})
    (project.root / "code.txt").write_text("1", encoding="utf-8")
    dirty = project.loop("--worktrees")
    git(project.root, "commit", "--quiet", "--all", "--message", "red")
    red = project.loop("--worktrees")

    assert (1, 1) == (dirty.returncode, red.returncode)
    assert "backup: " not in dirty.stderr + red.stderr
    assert [] == [*(project.root / ".ralph").glob("backups/*.db")]
    assert 'files were changed in "' in dirty.stderr
    assert 'error: check "tests" already fails on master\n' in red.stderr
    assert "hint: fix it, or pass --allow-failing-base if" in red.stderr
    assert [] == project.log("begin")


def test_failing_base_is_allowed_but_merges_still_pass_every_check(tmp_path: Path) -> None:
    still: Steps = ["begin", ["write", "other.txt", "1"], "done"]
    mends: Steps = ["begin", ["write", "code.txt", "0"], "check", "done"]
    project = repository(tmp_path, 2, {"1": [still], "2": [mends]})
    (project.root / "code.txt").write_text("1", encoding="utf-8")
    git(project.root, "commit", "--quiet", "--all", "--message", "red")
    done = project.loop("--worktrees", "--allow-failing-base", "--max-tasks", "2")

    assert 7 == done.returncode, done.stderr
    assert {1: "pending", 2: "done"} == project.statuses()
    assert "0" == (project.root / "code.txt").read_text(encoding="utf-8")
    assert 2 == project.loop("--allow-failing-base").returncode


@pytest.mark.parametrize(("skipped", "presses"), [("nowhere", 1), ("/merge", 2)])
def test_ctrl_c_ends_a_setup_that_runs_and_leaves_nothing_of_it(
    tmp_path: Path, skipped: str, presses: int
) -> None:
    """Before the first session once, and while the work tree of one is made ready twice."""
    pids = tmp_path / "pids"
    command = python(SETUP.format(skipped=skipped, pids=str(pids)))
    project = repository(
        tmp_path, 1, {"*": [WORKS]}, config=f"{TESTS}[loop]\nsetup = {json.dumps([command])}\n"
    )
    add_to_record(project.root, [item.digest for item in project_items(project.root)])
    loop = project.started("--worktrees")
    assert until(pids.exists)
    for _ in range(presses):
        loop.send_signal(signal.SIGINT)
        time.sleep(0.5)  # like a user
    began = time.monotonic()
    _, said = loop.communicate(timeout=60)

    assert 130 == loop.returncode, said
    assert time.monotonic() - began < 5, said
    assert not any(is_running(int(pid)) for pid in pids.read_text(encoding="utf-8").split())
    assert ({1: "pending"}, []) == (project.statuses(), project.held())


@pytest.mark.parametrize("name", ["a\nb", "a\n", "\n\nbranch refs/heads/main", "a\tb \u2028c"])
def test_loop_works_in_a_folder_with_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    project = repository(folder, 2, {"*": [WORKS]})
    done = project.loop("--worktrees")

    assert 0 == done.returncode, done.stderr
    assert ["task-1.txt", "task-2.txt"] == merged(project)


@pytest.mark.parametrize(
    "file", [".ralph/extra/all.md", ".claude/settings.json", ".mcp.json", "sub/.gemini/a"]
)
def test_a_task_that_changes_authority_is_blocked_with_the_path(tmp_path: Path, file: str) -> None:
    steps: Steps = ["begin", ["write", file, "{}"], "check", "done"]
    project = repository(tmp_path, 1, {"*": [steps]})
    (project.root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    git(project.root, "commit", "-qam", "x")
    project.loop("--worktrees")

    assert {1: "blocked"} == project.statuses()
    assert f"tasks must not change {file}" in comments(project, 1)
    assert file not in git(project.root, "ls-files")


def test_a_merged_change_of_content_is_named_and_stops_no_later_session(tmp_path: Path) -> None:
    steps: Steps = ["begin", ["write", "Makefile", "all{task}:"], "check", "done"]
    other: Steps = ["begin", ["write", "AGENTS.md", "{task}"], "check", "done"]
    project = repository(tmp_path, 2, {"1": [steps], "*": [other]})
    done = project.loop("--worktrees")

    assert ({1: "done", 2: "done"}, 0) == (project.statuses(), done.returncode), done.stderr
    assert "AGENTS.md, Makefile (changed by completed tasks)" in done.stderr
    assert 0 == ralphgen("session", "create", "braindump", "--project", project.root).returncode


def test_an_agents_settings_are_left_out_of_the_next_session(tmp_path: Path) -> None:
    hooks = '{"hooks": {}}'
    steps: Steps = ["begin", ["write", ".claude/settings.local.json", hooks], "done"]
    project = LoopProject(tmp_path, 2, {"*": [steps]})
    done = project.loop()

    assert {1: "done", 2: "done"} == project.statuses(), done.stderr
    assert "left out: Claude Code reads" in done.stderr
    assert 2 == ralphgen("session", "create", "braindump", "--project", project.root).returncode
