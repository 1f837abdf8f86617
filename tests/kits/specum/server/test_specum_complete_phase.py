"""A phase ends with a summary: the next one begins, and nothing that was written is lost."""

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import open_folder, texts
from driving import connected, create_project
from specum_projects import GOAL, KITS, PHASES, STATE, TASK_LIST, Desk
from unprivileged import call_text, unprivileged

NEXT = dict(pairwise(PHASES))
TOOL = {**{phase: f"ralph_{phase}" for phase in PHASES}, "execution": "ralph_implement"}
ORDER = "(Spec 'auth'; the phases are research → requirements → design → tasks → execution.)"
DATED = r"## Phase Complete: {} \(\d{{4}}-\d\d-\d\d\)\n\n"
WRONG = [(now, said) for now in PHASES for said in PHASES[:-1] if now != said]
PROGRESS = "# Progress\n\n## Original Goal\n\nAll\n\n## Learnings\n\n- one\n\n## Blockers\n"


def undated(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)


class TestPhases:
    """Each phase is completed in its turn."""

    @pytest.mark.parametrize("phase", NEXT)
    def test_each_phase_leads_to_the_next(self, desk: Desk, phase: str) -> None:
        desk.spec_in(phase)
        desk.write("auth", f"{phase}.md", TASK_LIST)
        before = desk.state("auth")

        text = desk.says("ralph_complete_phase", phase=phase, summary="  Found it.\n")

        assert text.startswith(
            f'## Phase complete: {phase} of "auth"\n\n- **Next phase**: {NEXT[phase]}\n'
            "- **Summary**: Found it.\n"
        )
        assert text.endswith(f"\nRun {TOOL[NEXT[phase]]}.\n")
        assert "Warning" not in text
        counted = {"totalTasks": 3} if phase == "tasks" else {}
        assert {**before, "phase": NEXT[phase], **counted} == desk.state("auth")
        section = DATED.format(phase) + r"Found it\.\n\n## Learnings\n"
        assert 1 == len(re.findall(section, desk.read("auth", ".progress.md")))

    def test_the_date_is_today_in_utc(self, desk: Desk) -> None:
        desk.spec_in("research")
        before = time.strftime("%Y-%m-%d", time.gmtime())
        desk.says("ralph_complete_phase", phase="research", summary="x")
        after = time.strftime("%Y-%m-%d", time.gmtime())

        (date,) = re.findall(r"research \((.*)\)", desk.read("auth", ".progress.md"))
        assert before <= date <= after

    @pytest.mark.parametrize(("now", "said"), WRONG)
    def test_another_phase_cannot_be_completed(self, desk: Desk, now: str, said: str) -> None:
        desk.spec_in(now)
        before = texts(desk.specs)

        text = desk.refuses("ralph_complete_phase", phase=said, summary="x")

        ahead = PHASES.index(now) < PHASES.index(said)
        what = f"Complete {now} before {said}." if ahead else f"The {said} phase is complete."
        assert f"Currently in {now} phase. {what} Run {TOOL[now]}. {ORDER}" == text
        assert before == texts(desk.specs)

    def test_the_tasks_are_counted_when_they_are_planned(self, desk: Desk) -> None:
        desk.spec_in("tasks")
        desk.write("auth", "tasks.md", TASK_LIST.replace("[ ] 1.1", "[x] 1.1"))

        desk.says("ralph_complete_phase", phase="tasks", summary="planned")

        found = desk.state("auth")
        assert (1, 3, 1) == (found["taskIndex"], found["totalTasks"], found["taskIteration"])

    def test_approval_is_cleared_and_other_notes_remain(self, desk: Desk) -> None:
        desk.spec_in("research")
        desk.change_state("auth", awaitingApproval=True, commitSpec=False, epicName="shop", x=[1])

        desk.says("ralph_complete_phase", phase="research", summary="x")

        found = desk.state("auth")
        assert not found["awaitingApproval"]
        assert not found["commitSpec"]
        assert ("shop", [1]) == (found["epicName"], found["x"])


class TestWhatIsMissing:
    """Missing parts are reported, and block only if necessary."""

    @pytest.mark.parametrize("text", [None, "", " \n\n"])
    @pytest.mark.parametrize("phase", NEXT)
    def test_a_missing_artifact_is_a_warning(
        self, desk: Desk, phase: str, text: str | None
    ) -> None:
        desk.spec_in(phase)
        if text is not None:
            desk.write("auth", f"{phase}.md", text)

        answer = desk.says("ralph_complete_phase", phase=phase, summary="x")

        assert f"- **Warning**: `specs/auth/{phase}.md` is missing or empty\n" in answer
        assert NEXT[phase] == desk.state("auth")["phase"]

    def test_a_list_without_tasks_is_a_warning(self, desk: Desk) -> None:
        desk.spec_in("tasks")
        desk.write("auth", "tasks.md", "# Tasks\n\n- write it\n")

        answer = desk.says("ralph_complete_phase", phase="tasks", summary="x")

        expected = "- **Warning**: `specs/auth/tasks.md` has no task line such as `- [ ] 1.1 …`\n"
        assert expected in answer
        assert (0, 0) == (desk.state("auth")["taskIndex"], desk.state("auth")["totalTasks"])

    def test_a_missing_progress_file_is_made_so_that_no_summary_is_lost(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / "auth" / ".progress.md").unlink()

        text = desk.says("ralph_complete_phase", phase="research", summary="Found it.")

        assert "- **Created**: `specs/auth/.progress.md`, which was missing\n" in text
        made = desk.read("auth", ".progress.md")
        assert re.search(DATED.format("research") + r"Found it\.\n\n## Learnings\n", made)
        assert "- **Phase**: requirements\n" in made
        assert "- **Objective**: say what must hold\n" in made
        assert made.endswith("- Write requirements.md\n")

    def test_a_progress_file_that_cannot_be_written_is_a_warning(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / "auth" / ".progress.md").unlink()
        (desk.specs / "auth" / ".progress.md").mkdir()

        answer = desk.says("ralph_complete_phase", phase="research", summary="x")

        assert "- **Warning**: cannot add the summary to .progress.md: " in answer
        assert "requirements" == desk.state("auth")["phase"]

    def test_a_folder_that_may_not_be_written_keeps_the_phase(self) -> None:
        with open_folder() as folder:
            root = create_project(folder / "project", config=KITS)
            spec = root / "specs" / "auth"
            spec.mkdir(parents=True)
            (spec / STATE).write_text('{"phase": "research"}', encoding="utf-8")
            (spec / ".progress.md").write_text(PROGRESS, encoding="utf-8")
            before = texts(root / "specs")
            given = {"spec_name": "auth", "phase": "research", "summary": "x"}
            with unprivileged(root, "specum") as wire:
                answer = call_text(wire, "ralph_complete_phase", **given)
                cancelled = call_text(wire, "ralph_cancel", spec_name="auth")
            after = texts(root / "specs")

        expected = (
            f"Failed to write {STATE}. Check file permissions. "
            f'("specs/auth/{STATE}": permission denied)'
        )
        assert (True, expected) == answer
        assert (True, f'cannot delete "specs/auth/{STATE}": permission denied') == cancelled
        assert before == after


class TestArguments:
    """Wrong calls change nothing."""

    @pytest.mark.parametrize("summary", ["", "  \n\t "])
    def test_an_empty_summary_is_refused(self, desk: Desk, summary: str) -> None:
        desk.spec_in("research")
        before = texts(desk.specs)

        expected = "The summary is empty: describe the work in one or two sentences"
        assert expected == desk.refuses("ralph_complete_phase", phase="research", summary=summary)
        assert before == texts(desk.specs)


class TestImport:
    """Effects on tasks of the project."""

    @pytest.mark.parametrize("more", [{}, {"import_tasks": False}])
    def test_the_place_of_tasks_is_reported_only_for_created_tasks(
        self, desk: Desk, more: dict[str, Any]
    ) -> None:
        desk.spec_in("tasks")
        before = texts(desk.specs)
        given = {"phase": "tasks", "summary": "x", "feature": "auth", **more}

        one = desk.refuses("ralph_complete_phase", **given)
        both = desk.refuses("ralph_complete_phase", **given, discipline="backend")

        tail = '"import_tasks" true: set that, or omit'
        assert f'"feature" requires {tail} it' == one
        assert f'"feature" and "discipline" require {tail} them' == both
        assert before == texts(desk.specs)

    def test_the_whole_call_is_offered_and_its_summary_is_not_recorded(self, desk: Desk) -> None:
        desk.spec_in("tasks")
        desk.write("auth", "tasks.md", TASK_LIST)
        text = desk.says("ralph_complete_phase", phase="tasks", summary="cut")

        call = (
            'call `ralph_complete_phase` with spec_name "auth", phase "tasks", a summary, '
            "import_tasks true, a feature and a discipline\n"
        )
        assert call in text
        before = desk.read("auth", ".progress.md")
        given = {"import_tasks": True, "feature": "auth", "discipline": "backend"}
        late = desk.says("ralph_complete_phase", phase="tasks", summary="again", **given)
        assert "- **Summary**: not recorded, because the tasks phase already has one\n" in late
        assert before == desk.read("auth", ".progress.md")


class TestSummary:
    """The summary occurs once in the progress file, and damages nothing else there."""

    def completed(self, desk: Desk, progress: str, summary: str) -> str:
        """Return the progress file after a phase, without its date."""
        desk.spec_in("research")
        desk.write("auth", ".progress.md", progress)
        desk.says("ralph_complete_phase", phase="research", summary=summary)
        return undated(desk.read("auth", ".progress.md"))

    @pytest.mark.parametrize(
        "summary",
        ["Costs $& and \\1 \\g<0>", "{{goal}} {{ summary }} {% if %}", "```\nopen fence", "%s {0}"],
    )
    def test_it_is_inserted_once_unchanged(self, desk: Desk, summary: str) -> None:
        desk.spec_in("research")

        text = desk.says("ralph_complete_phase", phase="research", summary=summary)

        assert 1 == desk.read("auth", ".progress.md").count(summary)
        assert 1 == text.count(summary.replace("\n", "\n  "))

    def test_a_long_one_is_kept_whole_and_shown_in_part(self, desk: Desk) -> None:
        desk.spec_in("research")
        summary = "long " * 20_000

        text = desk.says("ralph_complete_phase", phase="research", summary=summary)

        assert "[cut here: it has 99,999 characters]\n" in text
        assert 3_000 > len(text)
        assert summary.strip() in desk.read("auth", ".progress.md")


def test_the_goal_outlives_all_phases(desk: Desk) -> None:
    desk.spec_in("research")
    for phase in NEXT:
        desk.write("auth", f"{phase}.md", TASK_LIST)
        desk.says("ralph_complete_phase", phase=phase, summary=f"did {phase}")

    found = desk.read("auth", ".progress.md")
    assert [f"did {phase}" for phase in NEXT] == re.findall("did .*", found)
    assert f"## Original Goal\n\n{GOAL}\n" in found


class TestApproval:
    """If the settings require it, the user approves a phase before the next one begins."""

    def test_the_answers_ask_for_it_but_in_quick_mode(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "p", config=f"{KITS}[specum]\napproval = true\n")
        with connected(root, kit="specum") as driver:
            desk = Desk(root, driver)
            desk.spec_in("design")
            desk.write("auth", "design.md", "# design\n")
            told = desk.says("ralph_design")
            ended = desk.says("ralph_complete_phase", phase="design", summary="done")
            desk.says("ralph_start", name="fast", goal=GOAL, quick=True)
            quick = [
                desk.says("ralph_tasks"),
                desk.says("ralph_complete_phase", phase="tasks", summary="done"),
            ]

        assert " Then stop until the user approves it. Then run ralph_tasks." in told
        assert ended.endswith(
            "\nStop here and show the user `specs/auth/design.md`. Make the changes they "
            "request, and continue only after they approve it.\n\nThen run ralph_tasks.\n"
        )
        assert [] == [text for text in quick if "user approves" in text or "Stop here" in text]

    def test_nothing_is_asked_otherwise(self, desk: Desk) -> None:
        desk.spec_in("design")

        texts = [
            desk.says("ralph_design"),
            desk.says("ralph_complete_phase", phase="design", summary="done"),
        ]
        assert [] == [text for text in texts if "approve it" in text or "approves it" in text]
