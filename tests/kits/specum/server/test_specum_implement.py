"""Tasks are handed out one by one, as long as their list has an open box, and no longer."""

import re

import pytest
from command_line import texts
from driving import query
from specum_projects import MOST, PHASES, STATE, TASK_LIST, Desk

ENDED = '## Spec "auth" is complete\n\nAll 3 tasks are ticked.\n\nALL_TASKS_COMPLETE\n'
FIRST = """\
## execution phase for "auth": task 1 of 3

### Spec Information
- **Spec**: auth
- **Path**: `specs/auth/`
- **Task index**: 0 (from 0)
- **Attempt**: 1 of 5

### Current Task
````markdown
- [ ] 1.1 Write the file
  - **Do**: open it
  - **Verify**: `true`
````

### Progress
#### .progress.md

````markdown
# Progress

## Current Goal

- **Phase**: execution
- **Task**: 1/3: 1.1 Write the file
- **Objective**: carry the tasks out
"""


def tick(desk: Desk, *ids: str, mark: str = "x") -> None:
    """Tick boxes as a client does."""
    text = desk.read("auth", "tasks.md")
    for each in ids:
        assert f"[ ] {each}" in text
        text = text.replace(f"[ ] {each}", f"[{mark}] {each}")
    desk.write("auth", "tasks.md", text)


def handed(text: str) -> tuple[str, str, str]:
    """Position, number and block of the task in an answer."""
    position, number = re.findall(r"task (\d+) of (\d+)\n", text)[0]
    block = text.split("### Current Task\n")[1].split("\n### Progress\n", maxsplit=1)[0].strip()
    return position, number, "\n".join(block.splitlines()[1:-1])


def title(text: str) -> str:
    """Return the id of the task in an answer."""
    return re.sub(r"^[-*]\s+\[ \]\s+(\S+).*", r"\1", handed(text)[2], flags=re.DOTALL)


class TestHandingOut:
    """The next task, and its recorded state."""

    def test_the_first_open_task_comes_with_its_whole_context(self, desk: Desk) -> None:
        desk.spec_in("execution")

        text = desk.says("ralph_implement")

        assert text.startswith(FIRST)
        text = desk.says("ralph_implement")
        assert "\n### Agent Instructions\n# Spec Executor\n" in text
        protocol = text.split("### Completion Protocol\n")[1]
        assert "tick the box of 1.1 in `specs/auth/tasks.md`" in protocol
        assert "`TASK_COMPLETE`" in protocol
        assert "\n### On Failure\nLeave the box open" in protocol
        assert "ALL_TASKS_COMPLETE" not in text.split("### Agent Instructions")[0]

    def test_a_session_gets_the_whole_guidance_once_and_again_for_another_attempt(
        self, desk: Desk
    ) -> None:
        """With every task, thirty tasks were 290 kB."""
        desk.override("prompts/spec-executor.md", "# Mine\n" + "x" * 9_000)
        desk.spec_in("execution")
        found = []
        for done in ((), ("1.1",), (), ("1.2",)):
            tick(desk, *done)
            found.append(desk.says("ralph_implement"))

        assert [True, False, True, False] == ["# Mine" in text for text in found]
        assert (
            "The instructions for this session's first task apply here too. Do only this task"
            in found[1]
        )
        assert len(found[1]) < 3_000
        assert "tick the box of 1.2" in found[1]

    def test_a_group_of_parallel_tasks_is_handed_out_together(self, desk: Desk) -> None:
        tasks = "".join(f"- [ ] 1.{at} [P] T{at}\n  - **Do**: {at}\n" for at in range(11, 24))
        desk.spec_in("execution", tasks=f"- [x] 0.1 Before\n{tasks}- [ ] 2.1 After\n")
        tick(desk, "1.12")

        text = desk.says("ralph_implement")

        beside = text.split("### Parallel Tasks\n")[1].split("### Progress\n")[0]
        assert ("2", "15") == re.findall(r"task (\d+) of (\d+)\n", text)[0]
        assert [f"1.{at}" for at in range(13, 22)] == re.findall(r"\[ \] (\S+) \[P\]", beside)
        ids = ", ".join(f"1.{at}" for at in (11, *range(13, 22)))
        assert f"tick the box of {ids} in" in text
        assert "1.11" == desk.state("auth")["lastServedTask"]
        tick(desk, *(f"1.{at}" for at in (11, *range(13, 24))))
        assert "Beside" not in desk.says("ralph_implement")

    def test_it_begins_execution(self, desk: Desk) -> None:
        desk.spec_in("tasks")
        desk.write("auth", "tasks.md", TASK_LIST)
        desk.change_state("auth", awaitingApproval=True, totalTasks=99, taskIndex=7)
        before = desk.state("auth")

        desk.says("ralph_implement", max_iterations=9)

        expected = {
            **before,
            "phase": "execution",
            "awaitingApproval": False,
            "taskIndex": 0,
            "totalTasks": 3,
            "taskIteration": 1,
            "maxTaskIterations": 9,
            "globalIteration": 2,
            "lastServedTask": "1.1",
        }
        assert expected == desk.state("auth")

    def test_each_tick_leads_to_the_next_until_all_are_ticked(self, desk: Desk) -> None:
        desk.spec_in("execution")
        found = []
        for each in ("1.1", "1.2", "V1"):
            found.append((title(desk.says("ralph_implement")), desk.state("auth")["taskIndex"]))
            tick(desk, each)
        before = texts(desk.specs)

        assert [("1.1", 0), ("1.2", 1), ("V1", 2)] == found
        assert ENDED == desk.says("ralph_implement")
        del before[f"auth/{STATE}"]
        assert before == texts(desk.specs)
        assert ENDED == desk.says("ralph_implement")
        assert "| auth (current) | completed | 3/3 |\n" in desk.says("ralph_status")

    def test_a_task_that_is_opened_again_is_handed_out_again(self, desk: Desk) -> None:
        desk.spec_in("execution")
        tick(desk, "1.1", "1.2", "V1")
        desk.says("ralph_implement")
        desk.write("auth", "tasks.md", TASK_LIST)

        assert "has no state. Run ralph_start" in desk.refuses("ralph_implement")
        desk.says("ralph_start", name="auth")
        assert "1.1" == title(desk.says("ralph_implement"))

    @pytest.mark.parametrize("index", [0, 2, 99])
    def test_a_wrong_position_in_the_state_is_corrected(self, desk: Desk, index: int) -> None:
        desk.spec_in("execution")
        tick(desk, "1.1")
        desk.change_state("auth", taskIndex=index, totalTasks=index)

        assert ("2", "3") == handed(desk.says("ralph_implement"))[:2]
        found = desk.state("auth")
        assert (1, 3) == (found["taskIndex"], found["totalTasks"])


class TestLists:
    """The syntax of tasks."""

    @pytest.mark.parametrize("phase", ["tasks", "execution"])
    @pytest.mark.parametrize("tasks", [None, "", "# Tasks\n\n- [ ] no id\n- 1.1 no box\n"])
    def test_without_tasks_they_must_be_planned(
        self, desk: Desk, phase: str, tasks: str | None
    ) -> None:
        desk.spec_in(phase)
        (desk.specs / "auth" / "tasks.md").unlink(missing_ok=True)
        if tasks is not None:
            desk.write("auth", "tasks.md", tasks)
        before = texts(desk.specs)

        expected = (
            "Tasks not generated. Run ralph_tasks first. (`specs/auth/tasks.md` has no tasks.)"
        )
        assert expected == desk.refuses("ralph_implement")
        assert before == texts(desk.specs)

    @pytest.mark.parametrize("phase", PHASES[:3])
    def test_nothing_is_implemented_before_it_is_planned(self, desk: Desk, phase: str) -> None:
        desk.spec_in(phase)
        desk.write("auth", "tasks.md", TASK_LIST)
        before = texts(desk.specs)

        text = desk.refuses("ralph_implement")

        assert text.startswith(
            f"Currently in {phase} phase. Complete {phase} before execution. Run ralph_{phase}. "
        )
        assert before == texts(desk.specs)


class TestAttempts:
    """The limit on attempts at a task."""

    def test_a_task_is_blocked_after_its_attempts_and_a_larger_number_continues(
        self, desk: Desk
    ) -> None:
        desk.spec_in("execution")
        for attempt in (1, 2, 3):
            text = desk.says("ralph_implement", max_iterations=3)
            assert f"- **Attempt**: {attempt} of 3\n" in text
        before = texts(desk.specs)

        expected = (
            "Task 1.1 blocked after 3 attempts. See the Learnings in `specs/auth/.progress.md` "
            "for the cause. Fix it by hand and tick its box in `tasks.md`, or call "
            "ralph_implement with a larger max_iterations."
        )
        for fewer in (3, 1, 2):
            assert expected == desk.refuses("ralph_implement", max_iterations=fewer)
        assert before == texts(desk.specs)
        assert "- **Attempt**: 4 of 5\n" in desk.says("ralph_implement")

    def test_a_tick_always_leads_on(self, desk: Desk) -> None:
        desk.spec_in("execution")
        for _ in range(2):
            desk.says("ralph_implement", max_iterations=2)
        desk.refuses("ralph_implement", max_iterations=2)
        tick(desk, "1.1")

        text = desk.says("ralph_implement", max_iterations=2)

        assert "1.2" == title(text)
        assert "- **Attempt**: 1 of 2\n" in text
        assert (1, 4) == tuple(
            desk.state("auth")[key] for key in ("taskIteration", "globalIteration")
        )

    def test_all_tasks_together_have_a_limit(self, desk: Desk) -> None:
        desk.spec_in("execution")
        desk.change_state("auth", globalIteration=15, maxGlobalIterations=8)
        desk.says("ralph_implement")
        before = texts(desk.specs)

        expected = (
            "Task 1.1 blocked: its spec used 15 attempts, and its limit is 15. To continue, set "
            f'"maxGlobalIterations" in `specs/auth/{STATE}` to 16 or more.'
        )
        assert expected == desk.refuses("ralph_implement")
        assert before == texts(desk.specs)
        desk.change_state("auth", maxGlobalIterations=16)
        assert "- **Attempt**: 2 of 5\n" in desk.says("ralph_implement")

    def test_the_largest_number_of_attempts_is_not_to_be_exceeded(self, desk: Desk) -> None:
        desk.spec_in("execution")
        desk.says("ralph_implement")
        desk.change_state("auth", taskIteration=100)

        text = desk.refuses("ralph_implement", max_iterations=100)

        assert text.endswith("Fix it by hand and tick its box in `tasks.md`.")


class TestText:
    """The content and the length of an answer."""

    def test_fences_in_a_task_do_not_end_its_own(self, desk: Desk) -> None:
        block = "- [ ] 1.1 A\n  ```sh\n  x\n  ```\n  `````\n  y\n  `````\n  {{goal}} $& \\1"
        desk.spec_in("execution", tasks=f"{block}\n- [ ] 1.2 B\n")

        text = desk.says("ralph_implement")

        assert f"### Current Task\n``````markdown\n{block}\n``````\n\n### Progress\n" in text

    def test_a_long_task_and_a_long_progress_are_cut(self, desk: Desk) -> None:
        desk.spec_in("execution", tasks=f"- [ ] 1.1 {'t' * 60_000} end\n")
        desk.write("auth", ".progress.md", "p" * 60_000)

        text = desk.says("ralph_implement")

        assert "t\n````\n\n[cut here: read the rest in `specs/auth/tasks.md`]\n" in text
        assert "[cut here: read the rest in `specs/auth/.progress.md`]" in text
        assert MOST - 500 < len(text)
        assert "### On Failure\n" in text

    def test_a_task_of_fences_stays_within_the_length(self, desk: Desk) -> None:
        desk.override("prompts/spec-executor.md", "x" * 16_000)
        desk.spec_in("execution", tasks=f"- [ ] 1.1 {'`' * 60_000}\n")
        desk.write("auth", ".progress.md", "` " * 30_000)
        desk.says("ralph_implement")  # the second call returns the full guidance for certain

        assert MOST - 500 < len(desk.says("ralph_implement"))

    def test_a_long_list_of_tasks_done_elsewhere_is_cut(self, desk: Desk) -> None:
        """Their boxes are ticked all the same."""
        count = 400
        tasks = "".join(f"- [ ] {at}.{'0' * 20} T\n" for at in range(count))
        desk.spec_in("tasks")
        desk.write("auth", "tasks.md", tasks)
        home = {"import_tasks": True, "feature": "auth", "discipline": "backend"}
        text = desk.says("ralph_complete_phase", phase="tasks", summary="planned", **home)
        query(desk.root, "UPDATE tasks SET status = 'done' WHERE tags LIKE '%spec:auth%'")

        assert f" and {count - 100} more\n" in text
        assert f" and {count - 100} more\n" in desk.says("ralph_implement")
        assert tasks.replace("[ ]", "[x]") == desk.read("auth", "tasks.md")

    def test_the_project_s_own_prompt_is_used_at_once(self, desk: Desk) -> None:
        desk.spec_in("execution")
        path = desk.override("prompts/spec-executor.md", "# Ours {{x}}\n")

        assert "\n### Agent Instructions\n# Ours {{x}}\n\n" in desk.says("ralph_implement")
        path.unlink()
        path.mkdir()
        before = texts(desk.specs)
        assert (
            'cannot read ".ralph/specum/prompts/spec-executor.md": is a directory'
            == desk.refuses("ralph_implement")
        )
        assert before == texts(desk.specs)


class TestDisk:
    """The written files."""

    def test_a_custom_goal_and_a_file_without_sections_remain(self, desk: Desk) -> None:
        desk.spec_in("execution")
        text = (
            "## Original Goal\r\n- **Phase**: mine\r\n- Write design.md\r\n## Current Goal\r\n"
            "- **Phase**: design\r\n- **Task**: old\r\n- **Objective**: my own\r\n"
            "## Learnings\r\n- **Task**: x\r\n"
        )
        changed = text.replace("design\r\n- **T", "execution\r\n- **T").replace(
            "old", "1/3: 1.1 Write the file"
        )
        for before, after in ((text, changed), ("- **Phase**: x\n", "- **Phase**: x\n")):
            desk.write("auth", ".progress.md", before)
            desk.says("ralph_implement")
            assert after == desk.read("auth", ".progress.md")
