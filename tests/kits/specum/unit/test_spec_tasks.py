"""Tasks are found only in their places, and ticking one changes one character."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralphgen.kits.specum.server.specs import first_open, parallel_groups, parse_tasks, tick
from ralphgen.runtime.errors import ToolError

LIST = dedent(
    """\
    ---
    total_tasks: 4
    ---
    # Tasks: auth

    ## Phase 1

    - [x] 1.1 Create the table
      - **Do**:
        1. Write the migration
           - Verify: by eye

        2. Run it
      - **Files**: `a.sql`, `b.py`
      - **Done when**: the table is there
      - **Verify**: `pytest -q`
      - **Commit**: `feat(db): add users`
      - _Requirements: FR-1_

    ### Not the end

    Text of 1.1.
    - [ ] 1.2 [P] Write the form
      - Do: it
    - [ ] 1.3 [P] Write the mail

    ## Phase 2
    - [ ] a box without an id
    - [ ] V1 [VERIFY] Check all
    """
)


def ids(text: str) -> list[str]:
    return [task.id for task in parse_tasks(text)]


class TestFinding:
    """The grammar of a task line."""

    def test_a_list_gives_its_tasks_in_order(self) -> None:
        first, second, third, check = parse_tasks(LIST)

        assert ["1.1", "1.2", "1.3", "V1"] == [first.id, second.id, third.id, check.id]
        assert ("Create the table", 8) == (first.title, first.line)
        assert ("Write the form", 23) == (second.title, second.line)
        assert [True, False, False, False] == [task.done for task in parse_tasks(LIST)]
        assert [False, True, True, False] == [task.parallel for task in parse_tasks(LIST)]
        assert [False, False, False, True] == [task.verify for task in parse_tasks(LIST)]

    @pytest.mark.parametrize(
        ("line", "task"),
        [
            ("- [ ] 1.1 A", ("1.1", "A", False)),
            ("* [x] 10.12 A b ", ("10.12", "A b", True)),
            ("- [X] 1.2.3 A", ("1.2.3", "A", True)),
            ("-\t[ ]\tV12\tA", ("V12", "A", False)),
            ("- [ ] VF A", ("VF", "A", False)),
            ("- [ ] VE A", ("VE", "A", False)),
            ("- [ ] VE2 A", ("VE2", "A", False)),
            ("- [ ] 1.1", ("1.1", "", False)),
            ("- [ ] 1.1 [link](x) [P]", ("1.1", "[link](x) [P]", False)),
            ("- [ ] 1.1 [Plan] it", ("1.1", "[Plan] it", False)),
            ("\ufeff- [ ] 1.1 A", ("1.1", "A", False)),
        ],
    )
    def test_a_box_and_an_id_make_a_task(self, line: str, task: tuple[str, str, bool]) -> None:
        (found,) = parse_tasks(line)

        assert task == (found.id, found.title, found.done)

    @pytest.mark.parametrize(
        "line",
        [
            " - [ ] 1.1 A",
            "\t- [ ] 1.1 A",
            "+ [ ] 1.1 A",
            "1. [ ] 1.1 A",
            "-[ ] 1.1 A",
            "- [] 1.1 A",
            "- [  ] 1.1 A",
            "- [-] 1.1 A",
            "- [ ]1.1 A",
            "- [ ] 1 A",
            "- [ ] 1. A",
            "- [ ] 1.1. A",
            "- [ ] 1.1: A",
            "- [ ] 1.1a A",
            "- [ ] V A",
            "- [ ] VF2 A",
            "- [ ] v1 A",
            "- [ ] \u0661.\u0661 A",
            "- [ ] **1.1** A",
            "> - [ ] 1.1 A",
            "text - [ ] 1.1 A",
            "text\u2028- [ ] 1.1 A",
            "text\x0b- [ ] 1.1 A",
        ],
    )
    def test_anything_else_is_none(self, line: str) -> None:
        assert [] == parse_tasks(line)

    @pytest.mark.parametrize(
        ("line", "parallel", "verify"),
        [
            ("- [ ] 1.1 [P] A", True, False),
            ("- [ ] 1.1 [VERIFY] A", False, True),
            ("- [ ] 1.1 [P] [VERIFY] A", False, True),
            ("- [ ] 1.1 [VERIFY]  [P] A", False, True),
            ("- [ ] 1.1 [P]", True, False),
            ("- [ ] 1.1 A [P] b", False, False),
            ("- [ ] V4 A", False, True),
            ("- [ ] VF [P] A", False, True),
        ],
    )
    def test_tags_are_before_the_title(self, line: str, *, parallel: bool, verify: bool) -> None:
        (task,) = parse_tasks(line)

        assert (parallel, verify) == (task.parallel, task.verify)
        assert task.title in {"A", "", "A [P] b"}

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_every_end_of_a_line_is_one(self, end: str) -> None:
        tasks = parse_tasks(LIST.replace("\n", end))

        assert ["1.1", "1.2", "1.3", "V1"] == [task.id for task in tasks]
        assert [8, 23, 25, 29] == [task.line for task in tasks]
        assert "Create the table" == tasks[0].title

    def test_no_list_has_no_tasks(self) -> None:
        assert [] == parse_tasks("")
        assert [] == parse_tasks("# Tasks\n\nnone\n")

    def test_repeated_ids_are_distinguished_by_their_order(self) -> None:
        tasks = parse_tasks("- [x] 1.1 a\n- [ ] 1.1 b\n- [ ] V1 c\n- [ ] 1.1 d\n")

        assert ["1.1", "1.1#2", "V1", "1.1#3"] == [task.key for task in tasks]

    def test_the_first_open_task_is_the_next(self) -> None:
        tasks = parse_tasks("- [ ] 1.2 a\n- [x] 1.1 b\n- [ ] 1.0 c\n")

        following = first_open(tasks)

        assert following is not None
        assert "1.2" == following.id
        assert first_open(tasks[1:2]) is None
        assert first_open([]) is None


class TestFences:
    """Code is not a task, and an unclosed fence hides no task."""

    @pytest.mark.parametrize(
        "text",
        [
            "```\n- [ ] 9.9 no\n```\n- [ ] 1.1 yes",
            "~~~\n- [ ] 9.9 no\n~~~\n- [ ] 1.1 yes",
            "```markdown\n- [ ] 9.9 no\n``` \n- [ ] 1.1 yes",
            "````\n```\n- [ ] 9.9 no\n```\n- [ ] 9.9 no\n`````\n- [ ] 1.1 yes",
            "~~~\n```\n- [ ] 9.9 no\n~~~\n- [ ] 1.1 yes",
            "~~~ a`b\n- [ ] 9.9 no\n~~~\n- [ ] 1.1 yes",
            " ```\n- [ ] 9.9 no\n   ```\n- [ ] 1.1 yes",
            "```a``` is code\n- [ ] 1.1 yes\n```\n- [ ] 9.9 no\n```\n",
            "```\r\n- [ ] 9.9 no\r\n```\r\n- [ ] 1.1 yes",
            "\ufeff```\n- [ ] 9.9 no\n```\n- [ ] 1.1 yes",
        ],
    )
    def test_a_box_in_fenced_code_is_not_a_task(self, text: str) -> None:
        assert ["1.1"] == ids(text)

    @pytest.mark.parametrize("fence", ["  ```sh", "    ~~~", "\t```", "- ```", "1. ~~~"])
    def test_an_unclosed_fence_in_a_task_ends_with_it(self, fence: str) -> None:
        text = f"- [ ] 1.1 a\n{fence}\n  ls\n- [ ] 1.2 b\n  ```sh\n  ls\n  ```\n- [ ] 1.3 c\n"

        assert ["1.1", "1.2", "1.3"] == ids(text)

    def test_a_fence_that_is_never_closed_is_none(self) -> None:
        assert ["1.1", "1.2"] == ids("- [ ] 1.1 a\n```\n- [ ] 1.2 b\n````x\n")

    def test_a_shorter_fence_may_be_closed_inside_an_open_longer_one(self) -> None:
        assert ["1.1"] == ids("`````\n- [ ] 1.1 a\n```\n- [ ] 9.9 no\n```\n")


class TestBlocks:
    """The whole text of a task, from its box to the next."""

    def test_a_block_ends_at_the_next_box_or_higher_heading(self) -> None:
        first, second, third, check = (task.block for task in parse_tasks(LIST))

        assert first.startswith("- [x] 1.1 Create the table\n  - **Do**:\n")
        assert first.endswith("_Requirements: FR-1_\n\n### Not the end\n\nText of 1.1.")
        assert "- [ ] 1.2 [P] Write the form\n  - Do: it" == second
        assert "- [ ] 1.3 [P] Write the mail" == third
        assert "- [ ] V1 [VERIFY] Check all" == check

    @pytest.mark.parametrize(
        "end", ["# H", "## H", "##", "#\tH", "- [ ] x", "* [X] x", "+ [x] x", "- [ ]", "- [ ] 1.2"]
    )
    def test_what_ends_a_block(self, end: str) -> None:
        assert "- [ ] 1.1 a\n  b" == parse_tasks(f"- [ ] 1.1 a\n  b\n\n{end}\nc\n")[0].block

    @pytest.mark.parametrize("inner", ["### H", "#H", " # H", "- a", "  - [ ] a", "[ ] a", "---"])
    def test_what_does_not_end_it(self, inner: str) -> None:
        text = f"- [ ] 1.1 a\n\n{inner}\nb"

        assert text == parse_tasks(f"{text}\n\n")[0].block

    def test_the_ends_of_its_lines_are_kept(self) -> None:
        (task,) = parse_tasks("- [ ] 1.1 a\r\n\r\n  b\r\n\r\n")

        assert "- [ ] 1.1 a\r\n\r\n  b" == task.block


class TestFields:
    """The values under a task's five labels."""

    def test_all_fields_are_read(self) -> None:
        first, second, third, _ = parse_tasks(LIST)

        assert {
            "Do": "1. Write the migration\n   - Verify: by eye\n\n2. Run it",
            "Files": "`a.sql`, `b.py`",
            "Done when": "the table is there",
            "Verify": "`pytest -q`",
            "Commit": "`feat(db): add users`",
        } == first.fields
        assert {"Do": "it"} == second.fields
        assert {} == third.fields

    @pytest.mark.parametrize(
        "other", ["  - _Design: x_", "  _Requirements: FR-1_", "  - **Notes**: x", "### H"]
    )
    def test_a_field_ends_at_another_label(self, other: str) -> None:
        text = f"- [ ] 1.1 a\n  - **Commit**: c\n{other}\n    more\n"

        assert {"Commit": "c"} == parse_tasks(text)[0].fields

    def test_a_label_that_comes_twice_has_both_texts(self) -> None:
        text = "- [ ] 1.1 a\n  - Verify: one\n  - Do: x\n  - Verify: two\n"

        assert {"Do": "x", "Verify": "one\ntwo"} == parse_tasks(text)[0].fields


class TestGroups:
    """Neighbours marked `[P]` run together."""

    def test_neighbours_form_a_group_and_checkpoints_end_it(self) -> None:
        text = "".join(
            f"- [ ] {task}\n"
            for task in (
                "1.1 a",
                "1.2 [P] b",
                "1.3 [P] c",
                "V1 [VERIFY] [P] d",
                "1.4 [P] e",
                "1.5 f",
                "1.6 [P] g",
                "1.7 [P] h",
            )
        )

        assert [["1.1"], ["1.2", "1.3"], ["V1"], ["1.4"], ["1.5"], ["1.6", "1.7"]] == [
            [task.id for task in group] for group in parallel_groups(parse_tasks(text))
        ]
        assert [] == parallel_groups([])


class TestTicking:
    """A tick is one character."""

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_only_the_box_of_the_task_changes(self, end: str) -> None:
        text = f"\ufeff# T{end}- [x] 1.1 a{end}* [ ] 1.1 b \udcff{end}  - [ ] c{end}- [ ] 1.2 d"
        task = first_open(parse_tasks(text))

        assert task is not None
        assert text.replace("* [ ] 1.1", "* [x] 1.1") == tick(text, task)

    @pytest.mark.parametrize("box", ["x", "X"])
    def test_a_tick_is_unchanged(self, box: str) -> None:
        text = f"- [{box}] 1.1 a\n"

        assert text == tick(text, parse_tasks(text)[0])

    def test_a_task_that_is_gone_cannot_be_ticked(self) -> None:
        task = parse_tasks("- [ ] 1.2 b\n")[0]

        with pytest.raises(ToolError, match=r'task "1\.2" is no longer in tasks\.md'):
            tick("- [ ] 1.1 a\n", task)


PIECES = st.sampled_from(
    [
        "- [ ] 1.1 a",
        "* [x] 1.1",
        "- [X] V4 [VERIFY] [P] c",
        "- [ ] VF [P]",
        "  - **Do**: x",
        "Verify:",
        "  1. Commit: x",
        "_Design: x_",
        "```",
        "```sh",
        "  ````",
        "- ~~~",
        "~~~~",
        "# H",
        "### H",
        "- [ ] box",
        "\ufeff",
        "\u2028",
        "\udcff",
        "",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", " ", "", "\x0c"])
TEXTS = st.lists(st.tuples(PIECES | st.text(max_size=6), ENDS), max_size=16).map(
    lambda pairs: "".join(piece + end for piece, end in pairs)
)


class TestAnyText:
    """Any text of a model can be read."""

    @settings(deadline=None)
    @given(TEXTS)
    def test_every_task_can_be_ticked_with_one_character(self, text: str) -> None:
        tasks = parse_tasks(text)

        assert len(tasks) == len({task.key for task in tasks})
        for position, task in enumerate(tasks):
            assert task.block in text
            assert all(value.strip() for value in task.fields.values())
            ticked = tick(text, task)
            changed = [at for at, (a, b) in enumerate(zip(text, ticked, strict=True)) if a != b]
            assert ([] if task.done else [task.box]) == changed
            assert [*(each.done for each in tasks[:position]), True] == [
                each.done for each in parse_tasks(ticked)[: position + 1]
            ]
        assert [task for group in parallel_groups(tasks) for task in group] == tasks

    @settings(deadline=None)
    @given(st.text())
    def test_no_text_is_too_odd(self, text: str) -> None:
        assert all(task.id and task.line >= 1 for task in parse_tasks(text))

    @pytest.mark.thorough
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("line", "found"),
        [
            ("```a\n", False),
            ("~~~\n```b\n", False),
            ("  ```\n\n", False),
            ("- ", False),
            ("#", False),
            ("- [ ] 1.1 [P]", True),
            ("- [ ] 1.1" + ".1" * 9, False),
            ("- [ ] 1.1 a\n  ```\n  Do: x\n", True),
        ],
    )
    def test_a_long_text_is_read_at_once(self, line: str, *, found: bool) -> None:
        """Where time grew with the square of a text, this test would take minutes."""
        assert found == bool(parse_tasks(line * (400_000 // len(line))))
