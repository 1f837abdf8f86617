"""A new spec gets the name that its goal makes, or another that is free."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from driving import context_for, on_context
from specum_projects import GOAL, Desk
from unprivileged import call_text
from wire import running


class TestNames:
    """The name of a new spec."""

    @pytest.mark.parametrize("goal", ["!!!", "日本語", "$& {{}}", "-"])
    def test_a_goal_of_symbols_needs_a_name(self, desk: Desk, goal: str) -> None:
        expected = "No spec name can be derived from this goal: give a name in kebab-case"

        assert expected == desk.refuses("ralph_start", goal=goal)
        assert not desk.specs.exists()
        assert f"- **Goal**: {goal}\n" in desk.says("ralph_start", goal=goal, name="named")

    def test_the_owner_of_a_used_name_is_reported(self, desk: Desk) -> None:
        desk.spec_in("tasks", name="fix")
        (desk.specs / "file").write_text("x", encoding="utf-8")

        expected = (
            '- **Name**: "fix" already exists (phase tasks): use ralph_switch to continue it\n'
        )
        assert expected in desk.says("ralph_start", name="fix", goal=GOAL)
        assert expected in desk.says("ralph_start", goal="Fix!")
        assert '"file" already exists in `specs/` but is not a spec\n' in desk.says(
            "ralph_start", name="file", goal=GOAL
        )

    def test_servers_that_start_one_name_at_once_make_a_spec_each(self, desk: Desk) -> None:
        with ExitStack() as stack:
            context = on_context(context_for(desk.root, "manual"))
            wires = [stack.enter_context(running(desk.root, "specum", *context)) for _ in "abcd"]
            for wire in wires:
                wire.shake_hands()
            with ThreadPoolExecutor(len(wires)) as pool:
                answers = list(
                    pool.map(
                        lambda pair: call_text(
                            pair[1], "ralph_start", name="same", goal=f"g{pair[0]}"
                        ),
                        enumerate(wires),
                    )
                )

        made = [re.findall('## Spec "(.*)" started\n', text) for _, text in answers]
        assert ["same", "same-2", "same-3", "same-4"] == sorted(name for (name,) in made)
        for at, (name,) in enumerate(made):
            assert f"## Original Goal\n\ng{at}\n" in desk.read(name, ".progress.md")
        assert ["same", "same-2", "same-3", "same-4"] == desk.names()

    def test_specs_whose_goals_share_words_are_named_the_nearest_three_first(
        self, desk: Desk
    ) -> None:
        goals = {
            "far": "Sign in with a password",
            "near": "Import invoices from CSV files",
            "nearer": "Export the invoices, as PDF and CSV",
            "one": "Show invoices",
            "two": "Print invoices",
        }
        for name, goal in goals.items():
            desk.says("ralph_start", name=name, goal=goal)

        answer = desk.says("ralph_start", name="auth", goal=GOAL)

        assert "- **Related specs**: nearer, near, one\n" in answer
        related = desk.state("auth")["relatedSpecs"]
        assert [("nearer", 3), ("near", 2), ("one", 1)] == [
            (each["name"], each["score"]) for each in related
        ]
        assert "Related" not in desk.says("ralph_start", name="else", goal="Make it the new one")

    def test_files_links_and_folders_in_capitals_take_a_name_too(self, desk: Desk) -> None:
        desk.write("Tools", "readme.md", "not a spec\n")
        (desk.specs / "file").write_text("x", encoding="utf-8")
        (desk.specs / "link").symlink_to("nowhere")

        for taken in ("tools", "file", "link"):
            assert f'"{taken}-2" started' in desk.says("ralph_start", name=taken, goal=GOAL)
        assert "x" == (desk.specs / "file").read_text(encoding="utf-8")
        assert not (desk.specs / "nowhere").exists()
