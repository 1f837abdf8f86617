"""Loops of projects with rows in PostgreSQL, on machines that share only the DSN."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import pytest
from counted_loops import counted_loop
from driving import ROWS, query
from engines import VARIABLE, for_postgresql
from loop_projects import LoopProject, kill, wait_until_gone
from planned_agent import PROVES, WORKS, Steps
from postgresql import database, needs_postgresql, running, template_of
from proved_projects import INIT_SCHEMA, LEDGER, MARKER, check, git

from ralphgen.emit.trust import git_items
from ralphgen.project.approvals import add_to_record

if TYPE_CHECKING:
    import subprocess

pytestmark = [needs_postgresql, pytest.mark.slow]
SCHEMA = for_postgresql(
    ";\n".join((INIT_SCHEMA.read_text(encoding="utf-8"), LEDGER.read_text("utf-8"), MARKER, ROWS))
)
DONE = """SELECT row_key::int, session FROM ralphgen_journal
    WHERE table_name = 'tasks' AND after::json ->> 'status' = 'done'"""
PATIENT = "[loop]\nattempts = 100\nno_progress = 100\n"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database(template_of(SCHEMA)) as found:
        monkeypatch.setenv(VARIABLE, found)
        yield found


def machines(folder: Path, dsn: str, tasks: int) -> list[LoopProject]:
    """Return two projects with the rows of one database, each with its own folder and agents."""
    plan: Mapping[str, Sequence[Steps]] = {"*": [WORKS]}
    for name in ("a", "b"):
        (folder / name).mkdir()
    return [LoopProject(folder / name, tasks, plan, config=PATIENT, dsn=dsn) for name in ("a", "b")]


def ended(loops: list["subprocess.Popen[str]"]) -> list[str]:
    """Return the messages of loops, which must succeed."""
    said = [loop.communicate(timeout=3_000)[1] for loop in loops]
    assert [0] * len(loops) == [loop.returncode for loop in loops], said
    return said


def count_events(projects: list[LoopProject], event: str) -> Counter[int]:
    """How many agents of all machines have written such a line, by task."""
    return Counter(line["task"] for project in projects for line in project.log(event))


@pytest.mark.parametrize(
    ("tasks", "workers"),
    [
        pytest.param(6, 3, marks=pytest.mark.thorough),
        pytest.param(200, 4, marks=pytest.mark.soak),
        pytest.param(1_000, 25, marks=pytest.mark.soak),
    ],
)
def test_two_machines_do_each_task_once(tmp_path: Path, dsn: str, tasks: int, workers: int) -> None:
    projects = machines(tmp_path, dsn, tasks)
    said = "".join(ended([one.started("--parallel", str(workers)) for one in projects]))

    root = projects[0].root
    each = dict.fromkeys(range(1, tasks + 1), 1)
    lines = [one for project in projects for one in project.log("said")]
    # A writer among many may have to try again, which an agent of a plan leaves to the loop.
    refused = Counter(one["task"] for one in lines if one["text"].endswith("try again"))
    assert {"done"} == {*projects[0].statuses().values()}
    assert each == Counter(task for task, _ in query(root, DONE))
    assert each == count_events(projects, "begin") - refused
    assert [] == projects[0].held()
    sessions = "SELECT task_id, count(*) FROM ralphgen_sessions WHERE outcome = 'done' GROUP BY 1"
    recorded = dict(query(root, sessions))
    assert recorded.items() <= each.items()
    assert len(each) - len(recorded) <= said.count("the session was not recorded")


@pytest.mark.parametrize(
    ("tasks", "workers", "blows"),
    [
        pytest.param(5, 2, 1, marks=pytest.mark.thorough),
        pytest.param(200, 4, 6, marks=pytest.mark.soak),
    ],
)
def test_neither_killed_agents_nor_a_database_that_crashes_lose_or_double_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, workers: int, blows: int
) -> None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as server:
        folder = Path(name)
        folder.chmod(0o755)
        process = server.enter_context(running(folder))
        # Acknowledged writes must be in the log, unlike the default of the tests' servers.
        dsn = f"postgresql://postgres@/postgres?host={folder}&options=-csynchronous_commit%3Don"
        monkeypatch.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        projects = machines(tmp_path, dsn, tasks)
        loops = [one.started("--parallel", str(workers)) for one in projects]
        for blow in range(1, blows + 1):
            wanted = blow * tasks // (blows + 2)
            while sum(count_events(projects, "said").values()) < wanted:
                if all(loop.poll() is not None for loop in loops):
                    raise AssertionError([loop.communicate()[1][-2_000:] for loop in loops])
                time.sleep(0.05)
            for project in projects:
                with suppress(ProcessLookupError, IndexError):
                    os.kill(project.log("begin")[-1]["pid"], signal.SIGKILL)
            if blow % 2:
                process.send_signal(signal.SIGQUIT)  # at once, without a checkpoint
                process.wait()
                process = server.enter_context(running(folder))
            else:
                kill(loops[0])
                wait_until_gone(projects[0].root)
                loops[0] = projects[0].started("--parallel", str(workers))
        for loop in loops:
            loop.communicate(timeout=3_000)
        ended([projects[0].started("--parallel", str(workers))])  # if both had to retry too often

        root = projects[0].root
        assert {"done"} == {*projects[0].statuses().values()}
        assert [] == projects[0].held()
        made = Counter(task for task, _ in query(root, DONE))
        assert dict.fromkeys(range(1, tasks + 1), 1) == made
        lines = [one for each in projects for one in each.log("said")]
        said = {(one["task"], one["session"]) for one in lines if one["text"].startswith("{")}
        assert said <= {*query(root, DONE)}


@pytest.mark.thorough
def test_work_trees_of_two_clones_are_merged_by_their_remote(tmp_path: Path, dsn: str) -> None:
    projects: list[LoopProject] = []
    config = f'{PATIENT}remote = "origin"\n{check("there", "true")}'
    plan: Mapping[str, Sequence[Steps]] = {"*": [PROVES]}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        project = LoopProject(tmp_path / name, 4, plan, config=config, dsn=dsn, repository=True)
        if projects:
            git(project.root, "remote", "add", "origin", str(tmp_path / "shared.git"))
            git(project.root, "fetch", "--quiet", "origin")
            git(project.root, "reset", "--quiet", "--hard", "origin/master")
        else:
            git(project.root, "commit", "--quiet", "--all", "--message", "moved")
            git(tmp_path, "clone", "--quiet", "--bare", str(project.root), "shared.git")
            git(project.root, "remote", "add", "origin", str(tmp_path / "shared.git"))
        add_to_record(project.root, [item.digest for item in git_items(project.root, remote=True)])
        projects.append(project)
    ended([one.started("--parallel", "2", "--worktrees") for one in projects])

    assert {"done"} == {*projects[0].statuses().values()}
    files = git(tmp_path / "shared.git", "ls-tree", "--name-only", "HEAD").split()
    assert {f"task-{task}.txt" for task in range(1, 5)} <= {*files}


@pytest.mark.parametrize(
    ("tasks", "seconds"),
    [pytest.param(4, 8, marks=pytest.mark.thorough), pytest.param(12, 30, marks=pytest.mark.soak)],
)
def test_a_loop_waits_for_a_database_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, seconds: int
) -> None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as server:
        folder = Path(name)
        folder.chmod(0o755)
        process = server.enter_context(running(folder))
        dsn = f"postgresql://postgres@/postgres?host={folder}&options=-csynchronous_commit%3Don"
        monkeypatch.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        project = LoopProject(tmp_path, tasks, {"*": [WORKS]}, dsn=dsn)
        loop = project.started("--parallel", "3")
        while not count_events([project], "said"):
            assert loop.poll() is None, loop.communicate()
            time.sleep(0.05)
        process.kill()  # and its open connections
        process.wait()
        time.sleep(seconds)
        server.enter_context(running(folder))
        (said,) = ended([loop])
        ended([project.started()])  # a task that was claimed as it went away: its session is gone

        assert {"done"} == {*project.statuses().values()}
        assert "cannot be reached" in said  # by the loop, or by the server of a session


@pytest.mark.thorough
def test_a_further_session_does_not_log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for sessions in (2, 4):
        with database(template_of(SCHEMA)) as dsn:
            monkeypatch.setenv(VARIABLE, dsn)
            counts.append(counted_loop(tmp_path / str(sessions), sessions, dsn))

    assert counts[0]["login"]
    assert counts[0] == counts[1]
