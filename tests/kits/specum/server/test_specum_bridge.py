"""The boxes of a spec's tasks follow the status of the project's, on both kits' real servers."""

from pathlib import Path

import pytest
from driving import Driver, connected, create_project, query
from making_sessions import client_of, session_json
from specum_imports import IMPORT, followed
from specum_projects import KITS, STATE
from specum_runs import TASKS, changing, lay_spec, ok


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a project whose schema a test may change."""
    return create_project(tmp_path / "own", config=KITS)


def test_a_task_that_is_planned_again_is_another(root: Path, driver: Driver) -> None:
    """Work done under its key in an earlier plan ticks nothing in this one."""
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    query(root, "UPDATE tasks SET status = 'done' WHERE id >= 3")
    replanned = TASKS.replace("Write the parser", "Write another parser")
    (folder / "tasks.md").write_text(replanned, encoding="utf-8")
    answer = ok(driver, "ralph_complete_phase", **IMPORT)
    assert "- **Imported**: 1.1 as task 6\n" in answer
    assert "are unchanged: 1.1 as task 3\n" in answer
    assert ("task 1 of 3", "1.2, 1.3") == followed(driver)


def test_an_agent_on_a_task_of_no_spec_gets_none_of_another(root: Path) -> None:
    lay_spec(root, "csv", state={"phase": "execution"}, tasks=TASKS)
    with connected(root, "task_execution", kit="specum", task_id=1) as driver:
        refusal = driver.refusal("ralph_implement")

    assert (
        "This session works on task 1, which does not come from a spec: do it directly" == refusal
    )


def test_boxes_follow_the_status_of_the_projects_tasks(root: Path, driver: Driver) -> None:
    """Done and skipped tick a box; the box of a reopened task is left to the user."""
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    with connected(root) as tasks:
        ok(driver, "ralph_complete_phase", **IMPORT)
        assert ("task 1 of 3", "") == followed(driver)
        for status in ("in_progress", "blocked", "pending"):
            query(root, "UPDATE tasks SET status = ? WHERE id = 3", status)
            assert ("task 1 of 3", "") == followed(driver)
        tasks.call("set_task_status", id=3, status="done")
        assert ("task 2 of 3", "1.1") == followed(driver)
        tasks.call("set_task_status", id=3, status="pending")
        assert ("task 2 of 3", "") == followed(driver)
        tasks.call("set_task_status", id=3, status="done")
        query(root, "UPDATE tasks SET status = 'skipped' WHERE id IN (4, 5)")
        answer = ok(driver, "ralph_implement")

    assert "- **Ticked because their project tasks are done or skipped**: 1.2, 1.3\n" in answer
    assert answer.endswith("\nALL_TASKS_COMPLETE\n")
    done = TASKS.replace("- [ ]", "- [x]")
    assert done == (folder / "tasks.md").read_text(encoding="utf-8")


def test_a_task_that_is_done_in_the_project_is_no_longer_blocked(
    root: Path, driver: Driver
) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    ok(driver, "ralph_implement", max_iterations=1)
    assert "Task 1.1 blocked" in driver.refusal("ralph_implement", max_iterations=1)
    query(root, "UPDATE tasks SET status = 'done' WHERE id = 3")
    assert ("task 2 of 3", "1.1") == followed(driver)


def test_ticking_changes_the_marks_of_boxes_and_no_other_byte(root: Path, driver: Driver) -> None:
    text = b"\xef\xbb\xbf# T\r\n\r\n- [ ] 1.1 a \xff\xfe\t\r\n* [ ]  1.2 b\x0b \r\n\n- [ ] 1.3 c"
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=text)
    ok(driver, "ralph_complete_phase", **IMPORT)
    query(root, "UPDATE tasks SET status = 'done' WHERE id IN (3, 4)")
    assert ("task 3 of 3", "1.1, 1.2") == followed(driver)

    expected = text.replace(b"- [ ] 1.1", b"- [x] 1.1").replace(b"* [ ]  1.2", b"* [x]  1.2")
    assert expected == (folder / "tasks.md").read_bytes()


def test_a_task_of_the_project_that_names_another_spec_ticks_nothing_here(
    root: Path, driver: Driver
) -> None:
    lay_spec(root, "csv", state={"phase": "execution"}, tasks=TASKS)
    rows = ('["spec:csv-2","spec-task:1.1"]', '["spec-task:1.1"]', '["spec:csv"]', "spec:csv")
    for tags in rows:
        query(
            root,
            "INSERT INTO tasks (feature, discipline, title, status, tags) "
            "VALUES ('auth', 'backend', 'Other', 'done', ?)",
            tags,
        )
    assert ("task 1 of 3", "") == followed(driver)


def test_a_spec_continues_if_the_tasks_of_the_project_are_unavailable(own: Path) -> None:
    """The specs are files: a database that moved on must not hold them up, and must be named."""
    lay_spec(own, "csv", state={"phase": "tasks"}, tasks=TASKS)
    query(own, "ALTER TABLE tasks DROP COLUMN tags")
    with connected(own, kit="specum") as driver:
        with changing(own):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        answer = ok(driver, "ralph_implement")

    why = "the project's tasks are unavailable: the schema of the database does not match"
    assert refusal.startswith(why)
    assert f"- **Warning**: cannot tick boxes from the status of project tasks: {why}" in answer
    assert 'run "ralphgen regen"' in answer
    assert "task 1 of 3" in answer.splitlines()[0]
    assert str(own) not in answer + refusal


def test_an_agent_on_one_task_has_both_kits_and_its_done_task_ticks_its_box(
    root: Path, driver: Driver
) -> None:
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    session = session_json(root, "task_execution", "--task", "3")
    with (
        client_of(session["mcp_config"], "specum") as specs,
        client_of(session["mcp_config"]) as tasks,
    ):
        answer = ok(specs, "ralph_implement")
        assert "- [ ] 1.1 [P] Write the parser" in answer
        assert "- **Project task**: 3, pending\n" in answer
        close = "3. Set the project's task 3 to done with `set_task_status`, then stop: "
        assert close in answer
        assert "for the next task" not in answer.split("### Completion Protocol")[1]
        assert "returns this session's task" in str(specs.client.instructions)
        assert "1.1 Write the parser" == tasks.call("get_task")["title"]
        tasks.call("set_task_status", status="done", summary="parsed")
        refusal = specs.refusal("ralph_implement")

    assert "Task 1.1 of this session is already ticked: close it" == refusal
    assert TASKS.replace("[ ] 1.1", "[x] 1.1") == (folder / "tasks.md").read_text(encoding="utf-8")


def test_a_session_on_a_task_gets_it_whatever_spec_is_current(root: Path, driver: Driver) -> None:
    """The answer does not report completion if only its own box is ticked."""
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    lay_spec(root, "other", state={"phase": "execution"}, tasks="- [ ] 1.1 Another\n")
    session = session_json(root, "task_execution", "--task", "4")
    with client_of(session["mcp_config"], "specum") as specs:
        answer = ok(specs, "ralph_implement")
        done = TASKS.replace("- [ ]", "- [x]")
        (root / "specs" / "csv" / STATE).unlink()
        lay_spec(root, "csv", tasks=done, current=False)
        refusal = specs.refusal("ralph_implement")

    assert '## execution phase for "csv": task 2 of 3' == answer.splitlines()[0]
    assert "- **Project task**: 4, pending\n" in answer
    assert "Task 1.2 of this session is already ticked: close it" == refusal


def test_the_end_is_not_signalled_while_imported_tasks_are_open(root: Path, driver: Driver) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    query(root, "UPDATE tasks SET status = 'in_progress' WHERE id = 3")
    query(root, "UPDATE tasks SET status = 'skipped' WHERE id = 4")
    assert "- **Project task**: 3, in_progress\n" in ok(driver, "ralph_implement")
    folder = lay_spec(root, "csv", tasks=TASKS.replace("- [ ]", "- [x]"))
    answer = ok(driver, "ralph_implement")
    again = ok(driver, "ralph_implement")

    named = "still open: task 3 (1.1, in_progress), task 5 (1.3, pending).\n"
    assert f"All 3 tasks are ticked. These project tasks are {named}" in answer
    assert "Close them with `set_task_status`, then call `ralph_implement` again.\n" in answer
    assert "ALL_TASKS_COMPLETE" not in answer
    assert answer == again
    assert (folder / STATE).exists()
    query(root, "UPDATE tasks SET status = 'done' WHERE id IN (3, 5)")
    with changing(root, f"specs/csv/{STATE}"):
        assert ok(driver, "ralph_implement").endswith("\nALL_TASKS_COMPLETE\n")


def test_a_task_that_waits_is_handed_out_with_the_tasks_it_waits_for(
    root: Path, driver: Driver
) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    query(root, "UPDATE tasks SET depends_on = '[1, 2]' WHERE id = 3")
    assert "- **Project task**: 3, pending (1.1); waits for tasks 1, 2\n" in ok(
        driver, "ralph_implement"
    )
    query(root, "UPDATE tasks SET status = 'done' WHERE id = 1")
    assert "- **Project task**: 3, pending (1.1); waits for task 2\n" in ok(
        driver, "ralph_implement"
    )


def test_a_spec_without_state_still_waits_for_its_imported_tasks(
    root: Path, driver: Driver
) -> None:
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    lay_spec(root, "csv", tasks=TASKS.replace("- [ ]", "- [x]"))
    (folder / STATE).unlink()
    assert "ALL_TASKS_COMPLETE" not in ok(driver, "ralph_implement")
