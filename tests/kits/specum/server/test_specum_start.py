"""The tool that starts specs."""

from pathlib import Path
from typing import Any

import pytest
from command_line import open_folder, texts
from driving import context_for, create_project, on_context
from specum_projects import FIRST_STATE, GOAL, KITS, NO_GOAL, PHASES, STATE, TASK_LIST, Desk
from unprivileged import call_text, unprivileged
from wire import running

IGNORED = "specs/.current-spec\n**/.progress.md\n"
ASKING = "Ask the user for the goal of the new spec, then call `ralph_start` with the goal.\n"
STARTED = """\
## Spec "auth" started

- **Goal**: Export invoices as CSV
- **Phase**: research
- **Quick mode**: no
- **Files**: `specs/auth/.progress.md`, `specs/auth/.ralph-state.json`

Run ralph_research.
"""


class TestBeginning:
    """The parts of a new spec."""

    def test_a_name_and_a_goal_make_a_spec_and_its_four_files(self, desk: Desk) -> None:
        assert STARTED == desk.says("ralph_start", name="auth", goal=GOAL)
        assert FIRST_STATE == desk.state("auth")
        assert f"## Original Goal\n\n{GOAL}\n\n## Completed" in desk.read("auth", ".progress.md")
        assert "auth\n" == desk.pointer()
        assert IGNORED == (desk.root / ".gitignore").read_text(encoding="utf-8")
        assert [".current-spec", "auth"] == sorted(path.name for path in desk.specs.iterdir())
        assert [".progress.md", STATE] == sorted(
            path.name for path in (desk.specs / "auth").iterdir()
        )

    @pytest.mark.parametrize("given", [{}, {"goal": ""}, {"goal": " \n\t"}, {"goal": None}])
    def test_without_a_goal_a_placeholder_asks_for_it(
        self, desk: Desk, given: dict[str, Any]
    ) -> None:
        text = desk.says("ralph_start", name="auth", **given)

        assert "- **Goal**: none yet\n" in text
        assert "write it under `## Original Goal` in `specs/auth/.progress.md`" in text
        assert text.endswith("Run ralph_research.\n")
        assert f"## Original Goal\n\n{NO_GOAL}\n" in desk.read("auth", ".progress.md")
        assert "research" == desk.state("auth")["phase"]

    @pytest.mark.parametrize("given", [{}, {"goal": "  "}, {"quick": False}, {"name": None}])
    def test_without_name_and_goal_nothing_is_made_and_the_goal_is_asked_for(
        self, desk: Desk, given: dict[str, Any]
    ) -> None:
        assert ASKING == desk.says("ralph_start", **given)
        assert not desk.specs.exists()
        assert not (desk.root / ".gitignore").exists()

    def test_the_resumable_specs_are_named_if_a_goal_is_missing(self, desk: Desk) -> None:
        desk.spec_in("design")

        expected = (
            f'{ASKING}\nThe current spec is "auth" (phase design): run ralph_design to continue '
            "it.\n"
        )
        assert expected == desk.says("ralph_start")

    def test_a_quick_start_is_one_phase_with_all_instructions(self, desk: Desk) -> None:
        text = desk.says("ralph_start", name="auth", goal=GOAL, quick=True)

        expected = {**FIRST_STATE, "source": "plan", "phase": "tasks", "commitSpec": False}
        assert expected == desk.state("auth")
        assert "- **Quick mode**: yes\n" in text
        recorded = desk.read("auth", ".progress.md")
        assert "- **Phase**: tasks\n" in recorded
        assert "- Write research.md, requirements.md, design.md, tasks.md\n" in recorded
        files = [f"`specs/auth/{phase}.md`" for phase in PHASES[:4]]
        assert sorted(text.index(file) for file in files) == [text.index(file) for file in files]
        assert text.endswith(
            'Then call `ralph_complete_phase` with phase "tasks" and a summary, then call '
            "`ralph_implement` for the first task.\n"
        )

    @pytest.mark.parametrize("given", [{}, {"name": "auth"}, {"goal": " "}])
    def test_a_quick_start_needs_a_goal(self, desk: Desk, given: dict[str, Any]) -> None:
        assert "Quick mode requires a goal" == desk.refuses("ralph_start", quick=True, **given)
        assert not desk.specs.exists()


class TestText:
    """The user's input is text, and nothing more."""

    @pytest.mark.parametrize(
        "goal",
        [
            "Pay $& and $1 \\1 \\g<0>",
            "Show {{goal}} and {{ goal }} and {% for x in y %} {# note #}",
            "Use ```sh\nrm\n``` and ~~~",
            "%s %(name)s {0} {name} \\n",
            "<script>alert(1)</script> & | table | 😀",
        ],
    )
    def test_a_goal_is_inserted_once_unchanged(self, desk: Desk, goal: str) -> None:
        text = desk.says("ralph_start", name="auth", goal=goal)

        progress = desk.read("auth", ".progress.md")
        assert 1 == progress.count(goal)
        assert f"## Original Goal\n\n{goal}\n\n## Completed Tasks" in progress
        assert 1 == text.count(goal.replace("\n", "\n  "))
        assert goal in desk.says("ralph_research")

    def test_control_characters_are_left_out(self, desk: Desk) -> None:
        text = desk.says("ralph_start", name="auth", goal="a\x1b[31m\x00b\rc\u2028d\x85e")

        assert "- **Goal**: a[31mb\n  c\n  d\n  e\n" in text
        assert "\n\na[31mb\nc\nd\ne\n\n" in desk.read("auth", ".progress.md")

    def test_a_long_goal_is_kept_whole_and_shown_in_part(self, desk: Desk) -> None:
        goal = "word " * 40_000

        text = desk.says("ralph_start", name="auth", goal=goal)

        assert "[cut here: it has 199,999 characters]" in text
        assert 3_000 > len(text)
        assert goal.strip() in desk.read("auth", ".progress.md")
        assert "[cut here: read the rest in `specs/auth/.progress.md`]" in desk.says(
            "ralph_research"
        )


class TestTemplate:
    """The project's own progress file."""

    def test_a_template_of_the_project_is_used_at_once(self, desk: Desk) -> None:
        desk.override("templates/progress.md", "# Ours\n\n{{goal}} and {{goal}}\n")

        desk.says("ralph_start", name="auth", goal="{{goal}}!")

        assert "# Ours\n\n{{goal}}! and {{goal}}\n" == desk.read("auth", ".progress.md")

    def test_a_template_that_cannot_be_used_is_named_and_nothing_is_made(self, desk: Desk) -> None:
        file = ".ralph/specum/templates/progress.md"
        path = desk.override("templates/progress.md", "ß" * 16_001)
        long = desk.refuses("ralph_start", name="auth", goal=GOAL)
        path.unlink()
        path.mkdir()
        folder = desk.refuses("ralph_start", name="auth", goal=GOAL)

        expected = f'"{file}" has 32,002 bytes: shorten it to at most 16,000 characters'
        assert expected == long
        assert f'cannot read "{file}": is a directory' == folder
        assert not desk.specs.exists()


class TestGit:
    """The files that git ignores."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("*.pyc\n", f"*.pyc\n{IGNORED}"),
            ("*.pyc", f"*.pyc\n{IGNORED}"),
            ("**/.progress.md\n", "**/.progress.md\nspecs/.current-spec\n"),
            ("a\r\nb\r\n", "a\r\nb\r\nspecs/.current-spec\r\n**/.progress.md\r\n"),
            (f"a\n\n{IGNORED}b\n", f"a\n\n{IGNORED}b\n"),
        ],
    )
    def test_two_lines_are_added_to_gitignore_once(
        self, desk: Desk, before: str, after: str
    ) -> None:
        path = desk.root / ".gitignore"
        path.write_bytes(before.encode())

        for _ in range(2):
            assert "Warning" not in desk.says("ralph_start", name="auth", goal=GOAL)

        assert after.encode() == path.read_bytes()

    def test_a_failing_gitignore_is_a_warning(self, desk: Desk) -> None:
        (desk.root / ".gitignore").symlink_to(desk.root)
        try:
            text = desk.says("ralph_start", name="auth", goal=GOAL)
        finally:
            (desk.root / ".gitignore").unlink()

        assert '- **Warning**: cannot update ".gitignore": ' in text
        assert FIRST_STATE == desk.state("auth")


class TestDisk:
    """Errors of the disk are reported in a sentence."""

    def test_a_pointer_that_cannot_be_written_is_a_warning(self, desk: Desk) -> None:
        (desk.specs / ".current-spec").mkdir(parents=True)

        text = desk.says("ralph_start", name="auth", goal=GOAL)

        assert "- **Warning**: cannot make this the current spec: " in text
        assert FIRST_STATE == desk.state("auth")

    def test_a_folder_that_may_not_be_written_is_named_and_left_as_it_was(self) -> None:
        with open_folder() as folder:
            root = create_project(folder / "project", config=KITS)
            (root / "specs" / "auth").mkdir(parents=True)
            research = root / "specs" / "auth" / "research.md"
            research.write_text("# Known\n", encoding="utf-8")
            before = sorted(root.joinpath("specs").rglob("*"))
            with unprivileged(root, "specum") as wire:
                new = call_text(wire, "ralph_start", name="pay", goal=GOAL)
                again = call_text(wire, "ralph_start", name="auth", goal=GOAL)
                switched = call_text(wire, "ralph_switch", name="auth")
                deleted = call_text(wire, "ralph_cancel", spec_name="auth", delete_files=True)
            after = sorted(root.joinpath("specs").rglob("*"))

        assert (True, 'cannot create the directory "specs/pay": permission denied') == new
        expected = 'Failed to write {0}. Check file permissions. ("{1}/{0}": permission denied)'
        assert (True, expected.format(".progress.md", "specs/auth")) == again
        assert (True, expected.format(".current-spec", "specs")) == switched
        assert deleted[0]
        assert 'cannot delete "specs/auth": permission denied' in deleted[1]
        assert before == after

    def test_specs_are_in_the_configured_directory(self, tmp_path: Path) -> None:
        (tmp_path / "project" / "docs").mkdir(parents=True)
        config = f'{KITS}[specum]\nroot = "docs"\n'
        root = create_project(tmp_path / "project", config=config)
        context = context_for(root, "manual")
        with running(root, "specum", *on_context(context)) as wire:
            wire.shake_hands()
            failed, text = call_text(wire, "ralph_start", name="auth", goal=GOAL)

        assert (False, STARTED) == (failed, text)
        assert (root / "docs/specs/auth" / STATE).is_file()
        assert IGNORED == (root / "docs/.gitignore").read_text(encoding="utf-8")
        assert not (root / "specs").exists()


class TestAgain:
    """A spec without a usable state continues in its place."""

    @pytest.mark.parametrize("phase", PHASES)
    def test_a_spec_without_state_continues_from_its_files(self, desk: Desk, phase: str) -> None:
        desk.spec_in(phase)
        desk.write("auth", f"{phase}.md", " \n")  # an empty artifact does not count
        (desk.specs / "auth" / STATE).unlink()
        before = {path.name: path.read_bytes() for path in (desk.specs / "auth").iterdir()}
        (desk.specs / ".current-spec").unlink()

        text = desk.says("ralph_start", name="auth", goal="Another goal")

        assert text.startswith('## Spec "auth" restarted\n')
        assert f"- **Goal**: {GOAL}\n- **Phase**: {phase}\n" in text
        assert "The recorded goal is kept.\n" in text
        assert {**FIRST_STATE, "phase": phase} == desk.state("auth")
        (desk.specs / "auth" / STATE).unlink()
        assert before == {path.name: path.read_bytes() for path in (desk.specs / "auth").iterdir()}
        assert "auth\n" == desk.pointer()
        assert ["auth"] == desk.names()

    def test_a_goal_that_was_never_recorded_is_recorded_now(self, desk: Desk) -> None:
        desk.says("ralph_start", name="auth")
        (desk.specs / "auth" / STATE).unlink()

        assert f"- **Goal**: {GOAL}\n" in desk.says("ralph_start", name="auth", goal=GOAL)
        assert f"## Original Goal\n\n{GOAL}\n" in desk.read("auth", ".progress.md")
        assert NO_GOAL not in desk.read("auth", ".progress.md")

    def test_a_folder_made_by_hand_becomes_a_spec(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "# What is known\n")

        assert "- **Phase**: requirements\n" in desk.says("ralph_start", name="auth", goal=GOAL)
        assert "# What is known\n" == desk.read("auth", "research.md")
        assert GOAL in desk.read("auth", ".progress.md")

    def test_a_corrupt_state_is_set_aside(self, desk: Desk) -> None:
        desk.spec_in("design")
        desk.write("auth", STATE, "{broken")

        assert "- **Phase**: design\n" in desk.says("ralph_start", name="auth")
        assert {**FIRST_STATE, "phase": "design"} == desk.state("auth")
        assert "{broken" == desk.read("auth", f"{STATE}.bak")

    def test_quick_mode_in_place_keeps_existing_files(self, desk: Desk) -> None:
        desk.spec_in("design")
        (desk.specs / "auth" / STATE).unlink()

        text = desk.says("ralph_start", name="auth", goal=GOAL, quick=True)

        assert "- **Phase**: tasks\n" in text
        assert "Keep those\nalready written" in text
        assert "tasks" == desk.state("auth")["phase"]
        assert "# research of auth\n" == desk.read("auth", "research.md")

    def test_quick_mode_in_place_needs_no_goal_if_recorded(self, desk: Desk) -> None:
        desk.spec_in("design")
        (desk.specs / "auth" / STATE).unlink()

        text = desk.says("ralph_start", name="auth", quick=True)

        assert f"- **Goal**: {GOAL}\n- **Phase**: tasks\n- **Quick mode**: yes\n" in text
        assert "plan" == desk.state("auth")["source"]

    @pytest.mark.parametrize("given", [{}, {"goal": GOAL}, {"goal": f" {GOAL}\n"}, {"quick": True}])
    def test_a_completed_spec_is_reported_and_nothing_changes(
        self, desk: Desk, given: dict[str, Any]
    ) -> None:
        desk.spec_in("execution", tasks=TASK_LIST.replace("[ ]", "[x]"))
        (desk.specs / "auth" / STATE).unlink()
        before = texts(desk.root)

        text = desk.says("ralph_start", name="auth", **given)

        assert text.startswith('Spec "auth" is completed: every task is ticked. Nothing was ')
        assert before == texts(desk.root)

    def test_another_goal_than_that_of_a_completed_spec_is_another_spec(self, desk: Desk) -> None:
        desk.spec_in("execution", tasks=TASK_LIST.replace("[ ]", "[x]"))
        (desk.specs / "auth" / STATE).unlink()
        before = texts(desk.specs / "auth")

        text = desk.says("ralph_start", name="auth", goal="Another goal")

        assert text.startswith('## Spec "auth-2" started\n\n- **Goal**: Another goal\n')
        assert '- **Name**: "auth" already exists: completed\n' in text
        assert before == texts(desk.specs / "auth")
        assert "auth-2\n" == desk.pointer()

    def test_an_unreadable_state_is_reported_and_remains(self) -> None:
        with open_folder() as folder:
            root = create_project(folder / "project", config=KITS)
            spec = root / "specs" / "auth"
            spec.mkdir(parents=True)
            (spec / STATE).write_text('{"phase": "design"}', encoding="utf-8")
            (spec / STATE).chmod(0)
            spec.chmod(0o777)
            with unprivileged(root, "specum") as wire:
                begun = call_text(wire, "ralph_start", name="auth", goal=GOAL)
                handed = call_text(wire, "ralph_design", spec_name="auth")
                listed = call_text(wire, "ralph_status")
            names = sorted(path.name for path in spec.iterdir())

        why = f'cannot read "specs/auth/{STATE}": permission denied'
        assert [(True, why)] * 2 == [begun, handed]
        assert f"| auth | unreadable ({why}) | - |" in listed[1]
        assert [STATE] == names

    def test_a_spec_with_a_state_is_left_alone(self, desk: Desk) -> None:
        desk.spec_in("design")
        before = {path.name: path.read_bytes() for path in (desk.specs / "auth").iterdir()}

        assert '## Spec "auth-2" started\n' in desk.says("ralph_start", name="auth", goal=GOAL)
        assert before == {path.name: path.read_bytes() for path in (desk.specs / "auth").iterdir()}

    def test_a_link_to_a_folder_cannot_be_restarted(self, desk: Desk) -> None:
        elsewhere = desk.root.parent / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        desk.specs.mkdir()
        (desk.specs / "auth").symlink_to(elsewhere)

        assert '"auth-2" started' in desk.says("ralph_start", name="auth", goal=GOAL)
        assert [] == list(elsewhere.iterdir())
