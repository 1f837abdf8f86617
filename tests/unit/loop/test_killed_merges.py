"""A merge that is killed at any step resumes, and nothing is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driving import query
from lifelines import until
from merging_projects import (
    base,
    branch_of,
    emptied,
    entered,
    merged,
    merging_project,
    move_base,
    worked,
)
from proved_projects import git

from ralphgen.loop.git import Git
from ralphgen.loop.merge import Merged, unqueued_merges

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


def test_a_command_of_git_lives_on_where_we_are_killed(root: Path) -> None:
    assert os.getsid(0) != int(
        Git(root).run_quietly("-c", "alias.sid=!ps -o sid= -p $$", "sid").output.strip()
    )


MERGING = """
import sys
from pathlib import Path
from merging_projects import SETTLED, merged, say
from ralphgen.loop import merge, merges
from ralphgen.loop.merge import unqueued_merges

def killed(*_values, **_named):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)

root, name = Path(sys.argv[1]), sys.argv[2]
((tree, task, _),) = unqueued_merges(root)
for room in (merges, merges.merges, merge):
    if hasattr(room, name):
        setattr(room, name, killed)
        break
merged(root, tree, task)
"""


@pytest.mark.parametrize(
    "step",
    [
        "recorded_work",  # before it entered
        "_keep_late",
        "_labelled",
        "enter",
        "open_run",  # while the batch is built
        "checked_files",  # while the checks run
        "close_run",
        "move_base",  # before the branch moved
        "finish",  # before the row was written
        "forget_merged",
        "delete_refs",
    ],
)
def test_a_merge_killed_at_any_step_continues_without_loss(root: Path, step: str) -> None:
    worked(root, 1, [("new.txt", "x")])
    move_base(root)
    before = base(root)
    support = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [sys.executable, "-c", MERGING, str(root), step],
        env={**os.environ, "PYTHONPATH": str(support)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode, done.stderr
    moved = step in {"finish", "forget_merged", "delete_refs"}
    assert moved == (base(root) != before)

    left = unqueued_merges(root)
    assert (step in {"recorded_work", "_keep_late", "_labelled", "enter"}) == bool(left)
    for tree, task, _ in left:
        assert isinstance(merged(root, tree, task), Merged)
    if not left:
        assert all(isinstance(one, Merged) for one in emptied(root, branch_of(root)).values())
    assert "x" == (root / "new.txt").read_text(encoding="utf-8")
    assert [(base(root),)] == query(root, "SELECT merged FROM ralphgen_sessions WHERE id = 's1'")
    assert "" == git(root, "status", "--porcelain")
    assert isinstance(merged(root, worked(root, 2, [("more.txt", "y")]), 2), Merged)


def test_a_loop_that_is_killed_while_git_merges_leaves_a_whole_tree(root: Path) -> None:
    """Git is out of reach of what ends us, and comes to its end."""
    started, before = root.parent / "started", base(root)
    slow = f"test \"$GIT_WORK_TREE\" != '{root}' || {{ touch '{started}'; sleep 1; }}; cat"
    home = root.parent / "home"
    home.mkdir()
    git(root, "config", "--file", str(home / ".gitconfig"), "filter.slow.smudge", slow)
    tree = worked(root, 1, [("new.txt", "x"), (".gitattributes", "new.txt filter=slow\n")])
    entered(root, tree, 1)
    program = "import sys; from pathlib import Path; from merging_projects import *; "
    program += "root = Path(sys.argv[1]); emptied(root, branch_of(root))"
    running = subprocess.Popen(
        [sys.executable, "-c", program, str(root)],
        env={
            "XDG_CONFIG_HOME": str(Path.home() / ".config"),  # it has the records of trust
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(Path(__file__).parents[2] / "support"),
        },
        start_new_session=True,
    )
    assert until(started.exists)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert until(lambda: base(root) != before)

    assert Merged(base(root)) == merged(root, tree, 1)
    assert "" == git(root, "status", "--porcelain")
