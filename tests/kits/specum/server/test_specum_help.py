"""The eleven tools exist with descriptions, and the streams carry the right content."""

import json
import re
from typing import Any

import pytest
from command_line import texts
from driving import context_for, on_context
from specum_projects import GOAL, PHASES, STATE, TASK_LIST, TOOLS, Desk
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

    def test_the_phases_are_in_order(self, desk: Desk) -> None:
        text = desk.says("ralph_help")

        assert " → ".join(PHASES) in text
        tools = [f"`ralph_{phase}`" for phase in PHASES[:4]]
        places = [text.index(tool) for tool in ("`ralph_start`", *tools, "`ralph_implement`")]
        assert sorted(places) == places

    def test_help_names_the_files_and_an_example(self, desk: Desk) -> None:
        text = desk.says("ralph_help")

        for file in ("specs/<name>/", "specs/.current-spec", STATE, ".progress.md", "tasks.md"):
            assert file in text
        assert text.endswith(f'Example: `ralph_start` with goal "{GOAL}".\n')

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
