"""The status of specs: one row for each, with its phase and its ticks."""

import pytest
from command_line import texts
from specum_projects import GOAL, MOST, PHASES, STATE, TASK_LIST, Desk


def rows(desk: Desk) -> list[str]:
    """Return the rows of the table of specs."""
    return [line for line in desk.says("ralph_status").splitlines() if line.startswith("| ")][1:]


class TestStatus:
    """One row for each spec."""

    def test_without_specs_it_says_how_to_begin(self, desk: Desk) -> None:
        expected = "No specs found. Run ralph_start to begin.\n"

        assert expected == desk.says("ralph_status")
        desk.specs.mkdir()
        assert expected == desk.says("ralph_status")

    def test_one_spec(self, desk: Desk) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)

        expected = (
            "## Specs\n\nCurrent: auth\n\n| spec | phase | tasks |\n|---|---|---|\n"
            "| auth (current) | research | - |\n"
        )
        assert expected == desk.says("ralph_status")

    def test_specs_are_in_order_each_with_its_phase_and_its_ticks(self, desk: Desk) -> None:
        for phase in reversed(PHASES):
            desk.spec_in(phase, name=f"in-{phase}")
        desk.write("in-execution", "tasks.md", TASK_LIST.replace("[ ] 1.2", "[x] 1.2"))

        expected = [
            "| in-design | design | - |",
            "| in-execution | execution | 1/3 |",
            "| in-requirements | requirements | - |",
            "| in-research (current) | research | - |",
            "| in-tasks | tasks | 0/0 |",
        ]
        assert expected == rows(desk)

    def test_specs_without_a_usable_state_are_marked_and_nothing_is_moved(self, desk: Desk) -> None:
        for name in ("broken", "done", "left"):
            desk.spec_in("execution", name=name)
            (desk.specs / name / STATE).unlink()
        desk.write("broken", STATE, "{")
        desk.write("done", "tasks.md", TASK_LIST.replace("[ ]", "[X]"))
        desk.write("odd", STATE, '{"phase": "shipping"}')
        desk.write("empty", "notes.txt", "")
        before = texts(desk.root)

        found = rows(desk)

        again = 'no state (restart with ralph_start name="{}")'
        broken = (
            f'"{STATE}" is not valid JSON: expecting property name enclosed in double quotes '
            "(line 1)"
        )
        phases = '"research", "requirements", "design", "tasks", "execution"'
        assert [
            f"| broken | corrupt ({broken}) | - |",
            "| done | completed | 3/3 |",
            f"| empty | {again.format('empty')} | - |",
            f"| left (current) | {again.format('left')} | - |",
            f'| odd | corrupt ("{STATE}" must set "phase" to one of {phases}) | - |',
        ] == found
        assert before == texts(desk.root)

    def test_other_directories_are_not_listed(self, desk: Desk) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)
        desk.write(".hidden", "a.md", "")
        desk.write("Capital", "a.md", "")
        (desk.specs / "file").write_text("", encoding="utf-8")
        (desk.specs / "linked").symlink_to(desk.root)

        assert ["| auth (current) | research | - |"] == rows(desk)

    @pytest.mark.parametrize(
        ("pointer", "current"),
        [
            ("", "none"),
            (" \n", "none"),
            ("gone\n", 'none ("gone" does not exist)'),
            ("../outside", 'none ("../outside" does not exist)'),
            ("\ufeffgone\nmore", 'none ("gone\\nmore" does not exist)'),
        ],
    )
    def test_status_names_a_stale_pointer(self, desk: Desk, pointer: str, current: str) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)
        (desk.specs / ".current-spec").write_text(pointer, encoding="utf-8")

        assert f"\nCurrent: {current}\n" in desk.says("ralph_status")
        assert ["| auth | research | - |"] == rows(desk)

    def test_a_spec_that_cannot_be_read_does_not_hide_the_others(self, desk: Desk) -> None:
        desk.spec_in("execution", name="bad")
        (desk.specs / "bad" / "tasks.md").unlink()
        (desk.specs / "bad" / "tasks.md").symlink_to("../../outside.md")
        desk.spec_in("execution", name="good")

        first, second = rows(desk)
        assert first.startswith('| bad | unreadable ("specs/bad/tasks.md" is a symbolic link to a')
        assert "| good (current) | execution | 0/3 |" == second

    def test_very_many_specs_are_cut_and_counted(self, desk: Desk) -> None:
        for number in range(1_000):
            (desk.specs / f"{'long-name-' * 5}{number:04}").mkdir(parents=True)

        text = desk.says("ralph_status")

        shown = text.count("| long-name-")
        assert f"\n\n[cut here: {1000 - shown} more specs are in `specs/`]\n" in text
        assert MOST - 300 < len(text)

    @pytest.mark.thorough
    def test_boxes_beyond_the_first_megabyte_are_counted(self, desk: Desk) -> None:
        desk.spec_in("execution")
        (desk.specs / "auth" / STATE).unlink()
        done = "- [x] 1.1 Done\n" + "filling\n" * 200_000
        desk.write("auth", "tasks.md", done + "- [ ] 1.2 Open\n")

        (row,) = rows(desk)
        assert "no state" in row
        desk.says("ralph_start", name="auth")
        assert ["| auth (current) | execution | 1/2 |"] == rows(desk)
