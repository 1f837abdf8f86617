"""Whole workflows on specs, call by call: the answers, and the files afterwards."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import Driver, Era, connected, quiet
from specum_projects import STATE
from specum_runs import COUNTED, POINTER, TASKS, changing, lay_spec, ok, state_of, ticked

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.specum import TOOLS

NAME = "export-invoices-as-csv"
GOAL = "Export invoices as CSV"
HOME = f"specs/{NAME}"
WRITTEN = (f"{HOME}/{STATE}", f"{HOME}/.progress.md")
ERAS: tuple[Era, ...] = ("auto", "legacy")
PLUGIN = {
    "phase": "execution",
    "taskIndex": 1,
    "totalTasks": 3,
    "taskIteration": 2,
    "maxTaskIterations": 5,
}
RELATED = {
    "as we write them": [{"name": "auth", "goal": "Log in", "score": 2}],
    "as the plugin does": [
        {"name": "auth", "relevance": "high", "reason": "same files", "mayNeedUpdate": True}
    ],
}


@pytest.mark.thorough
@pytest.mark.parametrize("era", ERAS)
def test_a_spec_goes_from_its_goal_to_its_end_over_a_restart_of_the_server(
    root: Path, era: Era
) -> None:
    """After each call, the state and the pointer agree, and nothing else has changed."""
    with connected(root, kit="specum", era=era) as driver:
        assert [tool.name for tool in TOOLS] == driver.names()
        start_spec(driver, root)
        for phase, following in (
            ("research", "requirements"),
            ("requirements", "design"),
            ("design", "tasks"),
        ):
            handed_out(driver, root, phase, f"# {phase} of it\n")
            completed(driver, root, phase, following)
        handed_out(driver, root, "tasks", TASKS)
        completed(driver, root, "tasks", "execution", totalTasks=3)
        with changing(root):
            assert f"| {NAME} (current) | execution | 0/3 |" in ok(driver, "ralph_status")
        carried_out(driver, root, 0, "1.1")
    with connected(root, kit="specum", era=era) as driver:
        with changing(root):
            assert f"| {NAME} (current) | execution | 1/3 |" in ok(driver, "ralph_status")
        carried_out(driver, root, 1, "1.2")
        carried_out(driver, root, 2, "1.3")
        ended(driver, root)
        cancelled(driver, root)


def start_spec(driver: Driver, root: Path) -> None:
    with changing(root):
        assert "## Spec-driven workflow" in ok(driver, "ralph_help")
        assert "No specs found. Run ralph_start to begin.\n" == ok(driver, "ralph_status")
    with changing(root, *WRITTEN, POINTER, ".gitignore"):
        answer = ok(driver, "ralph_start", goal=GOAL)
    expected = {
        "source": "spec",
        "name": NAME,
        "basePath": f"./{HOME}",
        "phase": "research",
        **COUNTED,
        "maxTaskIterations": 5,
        "maxGlobalIterations": 100,
        "commitSpec": True,
        "awaitingApproval": False,
        "relatedSpecs": [],
    }
    assert expected == state_of(root, NAME)
    assert NAME == (root / POINTER).read_text(encoding="utf-8").strip()
    assert answer.endswith("Run ralph_research.\n")
    with changing(root):
        assert f"| {NAME} (current) | research | - |" in ok(driver, "ralph_status")


def handed_out(driver: Driver, root: Path, phase: str, artifact: str) -> None:
    """Return the instructions of a phase, and write its artifact as a client."""
    before = state_of(root, NAME)
    with changing(root):
        answer = ok(driver, f"ralph_{phase}")
    assert answer.startswith(f'## {phase} phase for "{NAME}"\n')
    assert GOAL in answer
    assert f'- spec_name: "{NAME}"\n- phase: "{phase}"\n- summary: ' in answer
    assert before == state_of(root, NAME)
    (root / HOME / f"{phase}.md").write_text(artifact, encoding="utf-8")


def completed(driver: Driver, root: Path, phase: str, following: str, **counted: int) -> None:
    before = state_of(root, NAME)
    with changing(root, *WRITTEN):
        answer = ok(driver, "ralph_complete_phase", phase=phase, summary=f"{phase} is done")
    tool = "ralph_implement" if following == "execution" else f"ralph_{following}"
    assert answer.endswith(f"\nRun {tool}.\n")
    assert "Warning" not in answer
    assert {**before, "phase": following, **counted} == state_of(root, NAME)
    recorded = (root / HOME / ".progress.md").read_text(encoding="utf-8")
    assert recorded.index(f"## Phase Complete: {phase}") < recorded.index("## Learnings")
    assert f"- **Phase**: {following}\n- **Task**: none yet\n" in recorded
    step = "Carry out the tasks in tasks" if following == "execution" else f"Write {following}"
    assert recorded.endswith(f"## Next Steps\n\n- {step}.md\n")


def carried_out(driver: Driver, root: Path, index: int, task: str) -> None:
    """Get a task, which is the one at this index, and tick its box."""
    before = state_of(root, NAME)
    with changing(root, *WRITTEN):
        answer = ok(driver, "ralph_implement")
    assert answer.startswith(f'## execution phase for "{NAME}": task {index + 1} of 3\n')
    recorded = (root / HOME / ".progress.md").read_text(encoding="utf-8")
    assert f"- **Phase**: execution\n- **Task**: {index + 1}/3: {task} " in recorded
    assert f"- [ ] {task} " in answer
    counted = {
        "taskIndex": index,
        "taskIteration": 1,
        "globalIteration": before["globalIteration"] + 1,
        "lastServedTask": task,
    }
    assert {**before, **counted} == state_of(root, NAME)
    ticked(root / HOME, task)


def ended(driver: Driver, root: Path) -> None:
    """Complete a spec: its state is removed, and another call changes nothing."""
    with changing(root, f"{HOME}/{STATE}"):
        answer = ok(driver, "ralph_implement")
    assert not (root / HOME / STATE).exists()
    assert "All 3 tasks are ticked." in answer
    assert answer.splitlines()[-1] == "ALL_TASKS_COMPLETE"
    with changing(root):
        assert answer == ok(driver, "ralph_implement")
        assert f"| {NAME} (current) | completed | 3/3 |" in ok(driver, "ralph_status")


def cancelled(driver: Driver, root: Path) -> None:
    with changing(root):
        assert "it had no state" in ok(driver, "ralph_cancel")
        assert f"| {NAME} (current) | completed | 3/3 |" in ok(driver, "ralph_status")
    artifacts = (f"{HOME}/{name}.md" for name in ("research", "requirements", "design", "tasks"))
    with changing(root, *artifacts, f"{HOME}/.progress.md", POINTER):
        assert "No specs remain." in ok(driver, "ralph_cancel", delete_files=True)
    assert not (root / HOME).exists()
    with changing(root):
        assert "No specs found. Run ralph_start to begin.\n" == ok(driver, "ralph_status")


def test_two_specs_grow_side_by_side_when_they_are_named(root: Path, driver: Driver) -> None:
    """A named spec is used: only start and switch change the current spec."""
    ok(driver, "ralph_start", name="one", goal="The first goal")
    ok(driver, "ralph_start", name="two", goal="The second goal")
    for phase in ("research", "requirements"):
        for name, other, goal in (("one", "two", "first"), ("two", "one", "second")):
            theirs = state_of(root, other)
            answer = ok(driver, f"ralph_{phase}", spec_name=name)
            assert f"The {goal} goal" in answer
            assert f'"{other}"' not in answer
            given = {"spec_name": name, "phase": phase, "summary": f"{phase} of {name}"}
            with changing(root, f"specs/{name}/{STATE}", f"specs/{name}/.progress.md"):
                ok(driver, "ralph_complete_phase", **given)
            assert theirs == state_of(root, other)
    assert "two" == (root / POINTER).read_text(encoding="utf-8").strip()
    with changing(root, POINTER):
        answer = ok(driver, "ralph_switch", name="one")
    assert "- **Previous**: two\n- **Current**: one\n- **Phase**: design\n" in answer
    assert ok(driver, "ralph_design").startswith('## design phase for "one"')


def test_a_corrupt_state_is_set_aside_and_the_spec_continues(root: Path, driver: Driver) -> None:
    folder = lay_spec(root, "auth", state=PLUGIN, tasks=TASKS.replace("[ ] 1.1", "[x] 1.1"))
    for name in ("research.md", "requirements.md", "design.md"):
        (folder / name).write_text(f"# {name}\n", encoding="utf-8")
    (folder / ".progress.md").write_text("## Original Goal\n\nLog in\n", encoding="utf-8")
    backups = (f"{STATE}.bak", f"{STATE}.bak.1")
    for turn, broken in enumerate(("{broken", '{"phase": "testing"}')):
        (folder / STATE).write_text(broken, encoding="utf-8")
        with changing(root):
            assert "| auth (current) | corrupt (" in ok(driver, "ralph_status")
        moved = [f"specs/auth/{name}" for name in backups[: turn + 1]]
        with changing(root, f"specs/auth/{STATE}", *moved):
            refusal = driver.refusal("ralph_implement")
        assert refusal.startswith("State corrupt: ")
        assert f'Backup at specs/auth/{STATE}.bak. Run ralph_start with name "auth".' in refusal
        assert broken == (folder / backups[0]).read_text(encoding="utf-8")
        with changing(root):
            assert 'Run ralph_start with name "auth".' in driver.refusal("ralph_implement")
            assert "no state (restart with" in ok(driver, "ralph_status")
        files = (f"specs/auth/{STATE}", *([] if turn else [".gitignore"]))
        with changing(root, *files):
            answer = ok(driver, "ralph_start", name="auth", goal="Another goal")
        assert '## Spec "auth" restarted' in answer
        assert "- **Goal**: Log in\n- **Phase**: execution\n" in answer
        assert "The recorded goal is kept." in answer
        assert "task 2 of 3" in ok(driver, "ralph_implement").splitlines()[0]
    assert "{broken" == (folder / backups[1]).read_text(encoding="utf-8")


def test_a_state_of_five_keys_as_the_plugin_writes_it_is_served_and_completed(
    root: Path, driver: Driver
) -> None:
    folder = lay_spec(root, "auth", state=PLUGIN, tasks=TASKS.replace("[ ] 1.1", "[x] 1.1"))
    assert "| auth (current) | execution | 1/3 |" in ok(driver, "ralph_status")
    answer = ok(driver, "ralph_implement")

    assert "task 2 of 3" in answer.splitlines()[0]
    state = state_of(root, "auth")
    assert ("spec", "auth", "./specs/auth") == (state["source"], state["name"], state["basePath"])
    assert (1, 3, 1, "1.2") == tuple(
        state[key] for key in ("taskIndex", "totalTasks", "taskIteration", "lastServedTask")
    )
    assert (folder / STATE).read_text(encoding="utf-8").startswith('{\n  "phase": "execution",\n')


@pytest.mark.parametrize("related", RELATED.values(), ids=RELATED)
def test_foreign_keys_of_a_state_survive_every_call(
    root: Path, driver: Driver, related: list[dict[str, Any]]
) -> None:
    theirs = {
        "fixTaskMap": {"1.1": {"attempts": 2}},
        "recoveryMode": True,
        "epicName": "größer",
        "relatedSpecs": related,
        "parallelGroup": {"startIndex": 0, "endIndex": 1, "taskIndices": [0, 1]},
        "taskResults": {"0": {"status": "failed", "error": "no\nway"}},
        "awaitingApproval": True,
    }
    folder = lay_spec(root, "auth", state={"phase": "design", **theirs}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", phase="design", summary="decided")
    ok(driver, "ralph_complete_phase", phase="tasks", summary="cut")
    ok(driver, "ralph_implement")
    ok(driver, "ralph_implement")

    kept = {**theirs, "awaitingApproval": False}  # the phase that waited for approval is complete
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    assert kept == {key: state[key] for key in kept}
    assert 2 == state["taskIteration"]


def test_quick_mode_goes_from_the_goal_to_the_tasks_in_one_step(root: Path, driver: Driver) -> None:
    assert "Quick mode requires a goal" == driver.refusal("ralph_start", quick=True)
    answer = ok(driver, "ralph_start", goal=GOAL, quick=True)
    assert "- **Phase**: tasks\n- **Quick mode**: yes\n" in answer
    for name in ("research", "requirements", "design", "tasks"):
        assert f"`{HOME}/{name}.md`" in answer
        text = TASKS if name == "tasks" else f"# {name}\n"
        (root / HOME / f"{name}.md").write_text(text, encoding="utf-8")
    state = state_of(root, NAME)
    assert ("plan", "tasks", False) == (state["source"], state["phase"], state["commitSpec"])
    assert "The research phase is complete." in driver.refusal("ralph_research")
    (root / HOME / "design.md").unlink()
    lacking = f"The design phase is over, but `{HOME}/design.md` is missing or empty."
    assert lacking in driver.refusal("ralph_design")
    assert ok(driver, "ralph_tasks").startswith(f'## tasks phase for "{NAME}"')
    answer = ok(driver, "ralph_complete_phase", phase="tasks", summary="all four")
    assert answer.endswith("\nRun ralph_implement.\n")
    for at, task in enumerate(("1.1", "1.2", "1.3")):
        carried_out(driver, root, at, task)
    ended(driver, root)


def test_existing_specs_are_served_unchanged(tmp_path: Path) -> None:
    """These are the fixture's: one in execution, one left by the plugin, one completed."""
    root = lay_down("specum", tmp_path)
    regenerate(root, force=False, say=quiet)
    with connected(root, kit="specum") as driver:
        with changing(root):
            status = ok(driver, "ralph_status")
        mine = ok(driver, "ralph_implement")
        ok(driver, "ralph_switch", name="login")
        theirs = ok(driver, "ralph_implement")
        ok(driver, "ralph_switch", name="search")
        completed_spec = ok(driver, "ralph_implement")

    assert "| csv-export (current) | execution | 1/4 |\n| login | execution | 1/2 |\n" in status
    assert "| search | completed | 2/2 |" in status
    assert "- **Ticked because their project tasks are done or skipped**: 1.2\n" in mine
    assert mine.startswith('## execution phase for "csv-export": task 3 of 4\n')
    assert theirs.startswith('## execution phase for "login": task 2 of 2\n')
    assert "ALL_TASKS_COMPLETE" in completed_spec
