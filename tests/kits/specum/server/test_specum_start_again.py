"""An existing spec starts again in its place, and keeps its files."""

from typing import Any

import pytest
from command_line import open_folder, texts
from driving import create_project
from specum_projects import FIRST_STATE, GOAL, KITS, NO_GOAL, PHASES, STATE, TASK_LIST, Desk
from unprivileged import call_text, unprivileged


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
