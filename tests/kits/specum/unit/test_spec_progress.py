"""Input of users and models goes into the progress file as text, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.specum.server.specs import goal_of, new_progress, with_goal, with_summary
from ralphgen.runtime.files.entry_log import without_controls

TEMPLATE = "# Progress\n\n## Original Goal\n\n{{goal}}\n\n## Completed Tasks\n\n## Learnings\n"
SHIPPED = Path(__file__).parents[4] / "ralphgen/kits/specum/texts/templates/progress.md"
TEXTS = st.text() | st.lists(
    st.sampled_from(
        ["#", "\\", " ", "\n", "\r\n", "## Learnings", "{{goal}}", "## Goal", "a", "```"]
    )
).map("".join)


def summarized(text: str, summary: str = "Done.") -> str:
    return with_summary(text, "research", summary, "2026-01-26")


class TestGoal:
    """The goal is kept word for word."""

    def test_a_second_place_in_a_template_of_the_project_is_left_alone(self) -> None:
        assert "## Goal\na\n{{goal}}\n" == new_progress("## Goal\n{{goal}}\n{{goal}}\n", "a")

    def test_a_template_without_a_place_gets_a_section(self) -> None:
        assert "# P\n\n## Original Goal\n\nLogin\n" == new_progress("# P\n", "Login")
        assert "## Original Goal\n\nLogin\n" == new_progress("", "Login")

    @pytest.mark.parametrize(
        ("text", "goal"),
        [
            ("", None),
            ("# Progress\n", None),
            ("## Original Goal", None),
            ("## Original Goal\n\n## Next\n", None),
            ("## Original Goal\nLogin", "Login"),
            ("## Original Goal\r\n\r\nLogin\r\nand out\r\n\r\n## Next\r\n", "Login\nand out"),
            ("\ufeff## Other\n\n### goal ##\n\nLogin\n#hash\n#\nrest", "Login\n#hash"),
            ("## Current Goal\n\nphase\n\n## Original Goal\n\nLogin\n", "Login"),
            ("## Goals\n\nLogin\n", None),
        ],
    )
    def test_it_is_found_in_files_of_others(self, text: str, goal: str | None) -> None:
        assert goal == goal_of(text)

    def test_another_goal_takes_the_place_of_the_first(self) -> None:
        text = new_progress(TEMPLATE, "")

        assert new_progress(TEMPLATE, "Login") == with_goal(text, "Login")
        assert text == with_goal(with_goal(text, "Login\n# a"), " ")

    def test_the_ends_of_lines_remain(self) -> None:
        text = TEMPLATE.replace("\n", "\r\n")

        changed = with_goal(text, "a\nb")

        assert text.replace("{{goal}}", "a\r\nb") == changed
        assert "# P\r\n\r\n## Original Goal\r\n\r\na\r\n" == with_goal("# P\r\n", "a")

    @given(TEXTS)
    def test_any_goal_comes_out_as_it_went_in(self, goal: str) -> None:
        expected = without_controls(goal).strip() or None

        assert expected == goal_of(new_progress(TEMPLATE, goal))
        assert expected == goal_of(with_goal(TEMPLATE, goal))
        assert expected == goal_of(new_progress("# Progress", goal))
        assert with_goal(TEMPLATE, goal).endswith("\n\n## Completed Tasks\n\n## Learnings\n")

    def test_the_template_of_the_server_has_a_goal(self) -> None:
        text = new_progress(SHIPPED.read_text(encoding="utf-8"), "Login")

        assert "Login" == goal_of(text)
        assert "\n\nDone.\n\n## Learnings\n" in summarized(text)


class TestSummary:
    """A phase that is complete leaves a section with its date."""

    def test_an_entry_is_before_the_learnings(self) -> None:
        assert (
            "# P\n\n## Phase Complete: research (2026-01-26)\n\nDone.\n\n## Learnings\n\n- a\n"
            == summarized("# P\n\n## Learnings\n\n- a\n")
        )

    def test_an_entry_is_before_the_last_line_of_its_kind(self) -> None:
        text = "## Learnings\na\n## Learnings \nb\n### Learnings\n ## Learnings\n## Learnings too\n"

        assert (
            "## Learnings\na\n\n## Phase Complete: research (2026-01-26)\n\nDone.\n\n"
            "## Learnings \nb\n### Learnings\n ## Learnings\n## Learnings too\n"
        ) == summarized(text)

    @pytest.mark.parametrize("text", ["# P", "# P\n", "# P\n\n"])
    def test_without_learnings_an_entry_is_at_the_end(self, text: str) -> None:
        assert "# P\n\n## Phase Complete: research (2026-01-26)\n\nDone.\n" == summarized(text)

    def test_an_empty_file_begins_with_it(self) -> None:
        assert "## Phase Complete: research (2026-01-26)\n\nDone.\n" == summarized("")

    def test_an_entry_uses_the_line_ends_of_the_file(self) -> None:
        assert (
            "# P\r\n\r\n## Phase Complete: research (2026-01-26)\r\n\r\na\r\nb\r\n\r\n"
            "## Learnings\r\n" == summarized("# P\r\n## Learnings\r\n", "a\nb")
        )

    def test_no_line_of_it_is_a_heading(self) -> None:
        text = summarized("", "# a\n#b\n   ## Learnings\r\nc # d\x1b[31m")

        assert "\n\n\\# a\n\\#b\n   \\## Learnings\nc # d[31m\n" in text

    def test_summaries_follow_each_other(self) -> None:
        text = with_summary(summarized(TEMPLATE), "design", "Drawn.", "2026-01-27")

        research, design = text.index("Complete: research"), text.index("Complete: design")

        assert research < design < text.index("## Learnings")

    @pytest.mark.parametrize("fence", ["```", "~~~~"])
    def test_code_blocks_are_skipped(self, fence: str) -> None:
        code = f"{fence}markdown\n## Learnings\n{fence}\n"

        assert (
            "## Phase Complete: research (2026-01-26)\n\nDone.\n\n" + f"## Learnings\n\n{code}"
        ) == summarized(f"## Learnings\n\n{code}").removeprefix("\n\n")
        assert summarized(code) == f"{code}\n## Phase Complete: research (2026-01-26)\n\nDone.\n"

    @given(TEXTS, TEXTS)
    def test_everything_else_is_unchanged(self, text: str, summary: str) -> None:
        after = summarized(text, summary)

        before = after[: after.index("## Phase Complete: research (2026-01-26)")]
        assert any(
            before.startswith(text[:at])
            and not before[at:].strip("\r\n")
            and after.endswith(text[at:])
            for at in range(len(text) + 1)
        )


class TestPhase:
    """A spec that skips research does not claim to begin with it."""

    def test_the_template_of_the_server_mentions_another_phase(self) -> None:
        shipped = SHIPPED.read_text(encoding="utf-8")

        text = new_progress(shipped, "Login", "tasks", ["design.md", "tasks.md"])

        assert "- **Phase**: tasks\n" in text
        assert "- **Objective**: cut the work into small tasks\n" in text
        assert text.endswith("- Write design.md, tasks.md\n")
        assert "research" not in text
        assert "- Carry out the tasks in tasks.md\n" in new_progress(shipped, "", "execution")

    def test_another_template_is_unchanged(self) -> None:
        text = "We do research.\n\nPhase: research\n\n{{goal}}\n"

        assert text.replace("{{goal}}", "a") == new_progress(text, "a", "tasks", ["tasks.md"])
