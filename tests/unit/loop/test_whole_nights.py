"""Whole nights of `ralphgen loop --worktrees --onto`: faults of every kind, kills, and answers."""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, ran
from driving import query
from loop_projects import LoopProject, kill, wait_until_gone
from merging_projects import base, branch_of
from planned_agent import PROVES, Steps, agent_command
from proved_projects import TEST, TESTS, git

pytestmark = pytest.mark.slow
NIGHT = "night/x"
OPTIONS = ("--worktrees", "--onto", NIGHT, "--agent", "mine,other", "--parallel", "2", "--json")
HOSTILE = "Free money\n[click](https://evil.example) \x1b[31m SECRET-7"
ROW_TEXT = ("SECRET", "money", "evil", "zone", "click", "half")
LOOP = "[loop]\nattempts = 9\nno_progress = 99\ntimeout = 30\n"
STRICT = "[loop]\nattempts = 1\nno_progress = 1\ntimeout = 600\n"
NOTIFY = """
[notify]
command = ["sh", "-c", "printf '[%s]\\\\n' \\"$1\\" >> ../notified", "sh", "{text}"]
"""
SET_DONE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30); "
    "c.execute(\"UPDATE tasks SET status = 'done' WHERE id = {task}\"); c.commit()"
)
BEGINS: Steps = ["prompt", "begin", ["say", HOSTILE], ["comment", HOSTILE]]
BREAKS: Steps = [*BEGINS, ["write", "code.txt", "1"]]
HALF: Steps = [*BEGINS, ["write", "half-{task}.txt", "half"]]
CONTINUES: Steps = ["prompt", "begin", ["run", "cat", "half-{task}.txt"], *PROVES[1:]]
MEETS: Steps = [*BEGINS, ["write", "both.txt", "{task}"], ["meet", 2], "check", "done"]
RESOLVES: Steps = ["prompt", "begin", ["write", "both.txt", "both"], *PROVES[1:]]


def asks(number: int) -> Steps:
    question = {"status": "blocked", "question": f"Which zone {number}?\n{HOSTILE}"}
    return [*HALF, ["tool", "set_task_status", question]]


@dataclass(frozen=True)
class Case:
    """A task of a night: its attempts, with the outcomes of its sessions if nothing is killed."""

    plan: tuple[Steps, ...]
    outcomes: tuple[str, ...]


CASES = {
    "conflict": Case((MEETS, RESOLVES), ("done",)),
    "the other conflict": Case((MEETS, RESOLVES), ("done",)),
    "question": Case((asks(1), asks(2), CONTINUES), ("asked", "asked", "done")),
    "limit with a reset": Case(([*HALF, ["limited", 7_200]], CONTINUES), ("rate limited", "done")),
    "works": Case((PROVES,), ("done",)),
    "lie": Case(([*BREAKS, "done"], PROVES), ("open", "done")),
    "timeout": Case(([*HALF, "hang"], CONTINUES), ("out of time", "done")),
    "failed check": Case(([*BREAKS, "check", "done"], PROVES), ("open", "done")),
    "limit": Case(([*HALF, "limited"], CONTINUES), ("rate limited", "done")),
    "forged row": Case(
        ([*BREAKS, ["run", sys.executable, "-c", SET_DONE, "{database}"]], PROVES), ("open", "done")
    ),
}
NUMBERS = {name: number for number, name in enumerate(CASES, start=1)}
CONFLICTS = (NUMBERS["conflict"], NUMBERS["the other conflict"])  # one of them meets the other
OWN_FAULTS = {"open", "out of time"}


def night_project(
    folder: Path, cases: dict[str, Case] = CASES, settings: str = LOOP
) -> LoopProject:
    command = json.dumps(agent_command(folder / "plan.json"))
    agents = "".join(f"[loop.agents.{name}]\ncommand = {command}\n" for name in ("mine", "other"))
    config = TESTS + settings + NOTIFY + agents
    project = LoopProject(folder, len(cases), {}, config=config, repository=True)
    database = str(project.root / ".ralph/db/ralph.db")
    plan = {str(number): [*case.plan] for number, case in enumerate(cases.values(), start=1)}
    project.follow(json.loads(json.dumps(plan).replace("{database}", database)))
    query(project.root, "UPDATE tasks SET title = ?", HOSTILE)
    return project


def rows(project: LoopProject, sql: str) -> list[tuple[Any, ...]]:
    return query(project.root, sql)


def open_questions(project: LoopProject) -> list[int]:
    sql = "SELECT number FROM ralphgen_questions WHERE answered IS NULL"
    return [number for (number,) in query(project.root, sql)]


def ends(project: LoopProject) -> list[dict[str, Any]]:
    """Run the loop to its end; return its events."""
    done = project.loop(*OPTIONS)
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    code, cause = (5, "needs_user") if open_questions(project) else (0, "nothing_ready")
    status = json.loads(ran("status", "--json", "--project", project.root))["loop"]

    assert (code, cause) == (done.returncode, events[-1]["cause"]), done.stderr
    assert (code, cause) == (status["exit_code"], status["cause"])
    return events


def answered(project: LoopProject) -> list[dict[str, Any]]:
    """Answer questions until the loop ends without one; return the events of its runs.

    The first answer counts, a second one is refused, and the next session reads the first.
    """
    events: list[dict[str, Any]] = []
    task = str(NUMBERS["question"])
    while numbers := open_questions(project):
        (number,) = numbers
        for text, code in ((f"It is {number}.", 0), ("No.", 1)):
            done = ralphgen("task", "answer", task, text, "--project", project.root)
            assert code == done.returncode, done.stderr
        before = project.attempts(NUMBERS["question"])
        events += ends(project)
        prompts = [line["text"] for line in project.log("prompt") if str(line["task"]) == task]
        assert f"Answer: It is {number}." in prompts[before]
        assert "Answer: No." not in prompts[before]
    return events


def refuse_broken_promises(project: LoopProject, began: tuple[str, str], folder: Path) -> None:
    """Assert the promises that hold after each night, also after kills."""
    root = project.root
    assert began == (base(root), branch_of(root))
    assert ".ralph/db/ralph.db" == git(root, "diff", "--name-only").strip()
    assert {"done"} == {*project.statuses().values()}
    assert [] == project.held()

    trailer = "--format=%(trailers:key=Ralphgen-Task,valueonly)"
    merged = git(root, "log", "--merges", trailer, f"{began[0]}..{NIGHT}").split()
    assert sorted(map(str, NUMBERS.values())) == sorted(merged)
    git(root, "worktree", "add", "--quiet", "--detach", str(folder))
    for commit in git(root, "rev-list", f"{began[0]}..{NIGHT}").split():
        git(folder, "checkout", "--quiet", commit)
        assert 0 == subprocess.run([sys.executable, "-c", TEST], cwd=folder, check=False).returncode
    assert "both" == git(root, "show", f"{NIGHT}:both.txt")

    for line in (root.parent / "notified").read_text("utf-8").splitlines():
        assert re.fullmatch(r"\[p: .{1,196}\]", line)
        assert line.isprintable()
        assert not any(word in line for word in ROW_TEXT)


def charged(project: LoopProject) -> dict[int, int]:
    return dict(query(project.root, "SELECT task_id, attempts FROM ralphgen_claims"))


def test_a_night_with_faults_of_every_kind(tmp_path: Path) -> None:
    project = night_project(tmp_path)
    began = base(project.root), branch_of(project.root)
    events = [*ends(project), *answered(project)]
    outcomes, attempts = project.outcomes(), charged(project)

    refuse_broken_promises(project, began, tmp_path / "check")
    assert [1, 2] == sorted(len(outcomes[task]) for task in CONFLICTS)
    assert 1 == sum(attempts[task] for task in CONFLICTS)
    for case, task in zip(CASES.values(), NUMBERS.values(), strict=True):
        if task not in CONFLICTS:
            assert [*case.outcomes] == outcomes[task]
            assert sum(one in OWN_FAULTS for one in case.outcomes) == attempts[task]
    continued = {NUMBERS[name] for name in ("limit with a reset", "question", "timeout", "limit")}
    assert continued <= {one["task"] for one in project.log("ran") if one["text"] == "0 half"}
    lines = (tmp_path / "notified").read_text("utf-8").splitlines()
    assert {"limit": 2, "question": 2, "stop": 3} == {
        kind: sum(one["event"] == kind for one in events) for kind in ("limit", "question", "stop")
    }
    assert 2 + 2 + 3 == len(lines)


def test_a_night_that_is_killed_and_resumed(tmp_path: Path) -> None:
    project = night_project(tmp_path)
    began = base(project.root), branch_of(project.root)
    cut: Counter[int] = Counter()  # sessions that a kill broke off, by task
    kills = 0
    for kind in ("session", "merge", "end", "limit", "question", "session"):
        loop = project.started(*OPTIONS)
        assert loop.stdout is not None
        kills += any(json.loads(line)["event"] == kind for line in loop.stdout)
        kill(loop)
        wait_until_gone(project.root)
        cut.update(project.held())
    ends(project)
    answered(project)
    outcomes = project.outcomes()

    assert kills >= 3
    refuse_broken_promises(project, began, tmp_path / "check")
    for task, attempts in charged(project).items():
        faults = sum(one in OWN_FAULTS for one in outcomes[task]) + (task in CONFLICTS)
        assert attempts <= faults + cut[task], (task, outcomes[task], cut)


def test_a_night_that_ends_at_its_time_and_the_next_one(tmp_path: Path) -> None:
    cases = {name: CASES[name] for name in ("timeout", "works")}
    project = night_project(tmp_path, cases, STRICT)
    end = int(time.time()) + 20
    zone = -end % 60  # seconds: a minute begins at the end
    until = time.strftime("%H:%M", time.gmtime(end + zone))
    environment = {**project.environment, "TZ": f"Night-0:00:{zone:02d}"}
    done = ralphgen(
        "loop", *OPTIONS, "--until", until, "--project", project.root, more=environment, fresh=True
    )
    status = json.loads(ran("status", "--json", "--project", project.root))["loop"]

    assert (7, 7, "until") == (done.returncode, status["exit_code"], status["cause"]), done.stderr
    assert {0} == {*charged(project).values()}
    ends(project)
    assert {1: ["out of time", "done"], 2: ["done"]} == project.outcomes()
    assert ["0 half"] == [line["text"] for line in project.log("ran")]
