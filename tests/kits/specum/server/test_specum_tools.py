"""The small tools on specs."""

import json
import re
from typing import Any

import pytest
from command_line import texts
from driving import context_for, on_context
from specum_projects import GOAL, MOST, PHASES, STATE, TASK_LIST, TOOLS, Desk
from wire import running

# By tool, the arguments and which of them must be given.
ARGUMENTS: dict[str, tuple[set[str], set[str]]] = {
    "ralph_start": ({"name", "goal", "quick"}, set()),
    "ralph_status": (set(), set()),
    "ralph_switch": ({"name"}, {"name"}),
    "ralph_cancel": ({"spec_name", "delete_files"}, set()),
    "ralph_complete_phase": (
        {"spec_name", "phase", "summary", "import_tasks", "feature", "discipline"},
        {"phase", "summary"},
    ),
    "ralph_help": (set(), set()),
    **{f"ralph_{phase}": ({"spec_name"}, set()) for phase in PHASES[:-1]},
    "ralph_implement": ({"max_iterations"}, set()),
}


class TestHelp:
    """The text that explains them."""

    def test_it_names_each_tool_once_with_its_arguments(self, desk: Desk) -> None:
        text = desk.says("ralph_help")

        rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.+) \|$", text, re.MULTILINE)
        assert sorted(TOOLS) == sorted(name for name, _, _ in rows)
        for name, shown, _ in rows:
            found = set(filter(None, shown.split(", ")))
            taken, needed = ARGUMENTS[name]
            assert {each if each in needed else f"{each}?" for each in taken} == found

    @pytest.mark.parametrize("tool", ["ralph_help", "ralph_status"])
    def test_looking_changes_nothing(self, desk: Desk, tool: str) -> None:
        desk.spec_in("design")
        before, around = texts(desk.specs), desk.outside()

        assert desk.says(tool) == desk.says(tool)
        assert before == texts(desk.specs)
        assert around == desk.outside()


class TestProcess:
    """The server as a process."""

    @pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
    def test_help_names_the_role_and_the_steps(self, desk: Desk, version: str) -> None:
        context = context_for(desk.root, "manual")
        with running(desk.root, "specum", *on_context(context)) as wire:
            told = wire.shake_hands(version)

        names = re.findall("ralph_[a-z_]+", told["instructions"])
        assert "ralph-specum" in json.dumps(told)
        assert {*TOOLS} == {*names}

    def test_a_workflow_logs_one_line_for_each_refused_call(self, desk: Desk) -> None:
        context = context_for(desk.root, "manual")
        with running(desk.root, "specum", *on_context(context)) as wire:
            wire.shake_hands()
            calls: list[tuple[str, dict[str, Any]]] = [
                ("ralph_start", {"name": "auth", "goal": GOAL}),
                ("ralph_design", {}),
                *(("ralph_complete_phase", {"phase": p, "summary": "x"}) for p in PHASES[:4]),
                ("ralph_implement", {}),
                ("ralph_cancel", {"spec_name": "../x", "delete_files": True}),
                ("ralph_cancel", {"delete_files": True}),
            ]
            desk.write("auth", "tasks.md", TASK_LIST)
            for name, arguments in calls:
                wire.ask("tools/call", {"name": name, "arguments": arguments})
            wire.leave()
            errors = wire.errors()

        logged = [json.loads(line) for line in errors.splitlines()]
        assert ["ralph_design", "ralph_cancel"] == [line["data"]["tool"] for line in logged]
        assert {("error", "ralph-specum")} == {(line["level"], line["logger"]) for line in logged}
        assert logged[0]["data"]["error"].startswith("Currently in research phase. ")

    def test_a_corrupt_state_that_a_start_sets_aside_is_one_line_too(self, desk: Desk) -> None:
        desk.write("auth", STATE, "{broken")
        context = context_for(desk.root, "manual")
        with running(desk.root, "specum", *on_context(context)) as wire:
            wire.shake_hands()
            call = {"name": "ralph_start", "arguments": {"name": "auth", "goal": GOAL}}
            answer = wire.ask("tools/call", call)["result"]["content"][0]["text"]
            wire.leave()
            (line,) = [json.loads(text) for text in wire.errors().splitlines()]

        problem = line["data"]["error"]
        assert ("error", "ralph-specum") == (line["level"], line["logger"])
        assert problem.startswith('State corrupt: ".ralph-state.json" is not valid JSON: ')
        assert problem.endswith(" Backup at specs/auth/.ralph-state.json.bak.")
        assert f"- **Warning**: {problem}\n" in answer


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


SWITCHED = """\
Switched to "auth".

- **Previous**: pay
- **Current**: auth
- **Phase**: design
- **Tasks**: -
- **Artifacts**: research.md, requirements.md
- **Next**: ralph_design
"""


class TestSwitch:
    """The choice of the spec."""

    def test_a_switch_reports_the_phase_of_the_other_spec(self, desk: Desk) -> None:
        desk.spec_in("design", name="auth")
        desk.spec_in("research", name="pay")

        assert SWITCHED == desk.says("ralph_switch", name="auth")
        assert "auth\n" == desk.pointer()

    def test_the_current_spec_remains_the_current_one(self, desk: Desk) -> None:
        desk.spec_in("execution")

        text = desk.says("ralph_switch", name="auth")

        assert text.startswith('Already on "auth".\n')
        assert "- **Tasks**: 0/3\n" in text
        assert text.endswith("- **Next**: ralph_implement\n")
        assert "auth\n" == desk.pointer()

    def test_a_pointer_to_anything_can_be_left(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / ".current-spec").write_text("a\n## Done\x1b[2J", encoding="utf-8")

        text = desk.says("ralph_switch", name="auth")

        assert "- **Previous**: a\\n## Done\\x1b[2J\n" in text
        assert "auth\n" == desk.pointer()

    def test_a_spec_without_state_can_be_switched_to(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "x")
        (desk.specs / "auth" / "design.md").symlink_to("/etc/hostname")

        text = desk.says("ralph_switch", name="auth")

        assert "- **Previous**: none\n- **Current**: auth\n- **Phase**: no state (restart " in text
        assert text.endswith("- **Artifacts**: research.md\n")

    def test_an_unknown_spec_is_refused_with_the_existing_ones(self, desk: Desk) -> None:
        desk.spec_in("research", name="pay")
        desk.spec_in("research", name="auth")

        expected = (
            "Spec 'xyz' not found. Run ralph_status to see available specs. "
            "Available specs: auth, pay."
        )
        assert expected == desk.refuses("ralph_switch", name="xyz")
        assert "auth\n" == desk.pointer()

    def test_of_very_many_specs_the_first_are_named(self, desk: Desk) -> None:
        for number in range(1_000):
            (desk.specs / f"spec-{number:04}").mkdir(parents=True)

        text = desk.refuses("ralph_switch", name="xyz")

        assert text.endswith("spec-0018, spec-0019 and 980 more.")


class TestCancel:
    """Removed and kept files."""

    def test_the_current_spec_loses_its_state_and_nothing_else(self, desk: Desk) -> None:
        desk.spec_in("design")
        before = texts(desk.specs)

        expected = (
            'Spec "auth" cancelled: its state is deleted, its files in `specs/auth/` are kept.\n'
        )
        assert expected == desk.says("ralph_cancel")
        del before[f"auth/{STATE}"]
        assert before == texts(desk.specs)
        assert "auth\n" == desk.pointer()

    def test_a_spec_without_state_can_be_cancelled(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "x")

        expected = 'Spec "auth" cancelled: it had no state, its files in `specs/auth/` are kept.\n'
        assert expected == desk.says("ralph_cancel", spec_name="auth", delete_files=False)

    def test_a_cancelled_spec_can_continue(self, desk: Desk) -> None:
        desk.spec_in("design")
        desk.says("ralph_cancel")

        assert "- **Phase**: design\n" in desk.says("ralph_start", name="auth")

    def test_deleting_the_current_spec_leads_to_the_first_that_is_left(self, desk: Desk) -> None:
        for name in ("shop", "pay", "auth"):
            desk.spec_in("research", name=name)
        desk.write("auth", "deep/er/notes.md", "x")

        expected = (
            'Spec "auth" cancelled: `specs/auth/` is deleted.\n\nThe current spec is now "pay".\n'
        )
        assert expected == desk.says("ralph_cancel", delete_files=True)
        assert ["pay", "shop"] == desk.names()
        assert "pay\n" == desk.pointer()

    def test_deleting_the_last_spec_clears_the_pointer(self, desk: Desk) -> None:
        desk.spec_in("research")

        expected = 'Spec "auth" cancelled: `specs/auth/` is deleted.\n\nNo specs remain.\n'
        assert expected == desk.says("ralph_cancel", delete_files=True)
        assert [] == list(desk.specs.iterdir())
        assert "No specs found. Run ralph_start to begin.\n" == desk.says("ralph_status")

    def test_deleting_another_spec_keeps_the_pointer(self, desk: Desk) -> None:
        desk.spec_in("research", name="auth")
        desk.spec_in("research", name="pay")

        expected = 'Spec "auth" cancelled: `specs/auth/` is deleted.\n'
        assert expected == desk.says("ralph_cancel", spec_name="auth", delete_files=True)
        assert ["pay"] == desk.names()
        assert "pay\n" == desk.pointer()

    def test_the_state_remains_if_nothing_can_be_deleted(self, desk: Desk) -> None:
        desk.spec_in("research")
        real = desk.root / "real"
        desk.specs.rename(real)
        desk.specs.symlink_to(real)
        try:
            before = texts(real)
            text = desk.refuses("ralph_cancel", delete_files=True)
            after = texts(real)
        finally:
            desk.specs.unlink()
            real.rename(desk.specs)

        expected = (
            '"specs" is a symbolic link, and files behind it are not deleted: delete '
            '"specs/auth" by hand'
        )
        assert expected == text
        assert before == after

    def test_without_a_current_spec_one_must_be_named(self, desk: Desk) -> None:
        assert "No current spec. Run ralph_start to begin." == desk.refuses("ralph_cancel")
        desk.spec_in("research")
        (desk.specs / ".current-spec").unlink()

        expected = "No current spec. Run ralph_start to begin. Available specs: auth."
        assert expected == desk.refuses("ralph_cancel", delete_files=True)
        assert (desk.specs / "auth" / STATE).exists()

    def test_a_pointer_to_a_deleted_spec_finds_nothing(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / ".current-spec").write_text("gone\n", encoding="utf-8")

        expected = (
            "Current spec 'gone' not found. Run ralph_status to see available specs. "
            "Available specs: auth."
        )
        for tool in ("ralph_cancel", "ralph_research", "ralph_implement"):
            assert expected == desk.refuses(tool)
