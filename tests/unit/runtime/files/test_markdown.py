"""Headings, sections and tables match a reader's view of the text."""

from __future__ import annotations

import re
import time

import pytest

from ralphgen.runtime.files.markdown import (
    headings,
    indent_of,
    read_lines,
    section,
    table,
    table_lines,
)

ITEM = re.compile(r"- \[ \]")
SPEC = """\
# Types
## 1. App
An app.

```md
## Not a heading
```
### Kinds
More.
## 2.1) Workflow ##
A flow.
"""


def fenced(text: str, item: re.Pattern[str] | None = None) -> list[str]:
    """The lines of a text that are code."""
    return [line.text for line in read_lines(text, item) if line.fenced]


class TestCode:
    """Text in a fence is code."""

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("a\n```sh\nb\n```\nc", ["```sh", "b", "```"]),
            ("```\na\n~~~\n```\nb", ["```", "a", "~~~", "```"]),
            ("````\n```\n`````\nb", ["````", "```", "`````"]),
            ("```\na\n``` b\n```\nc", ["```", "a", "``` b", "```"]),
            ("```a`b\nc", []),
            ("~~~a`b\nc\n~~~\nd", ["~~~a`b", "c", "~~~"]),
            ("   ```\na\n   ```\nb", ["   ```", "a", "   ```"]),
            ("``\na", []),
            ("```\r\na\r```\nb", ["```", "a", "```"]),
        ],
    )
    def test_it_is_the_same_in_all_texts(self, text: str, code: list[str]) -> None:
        assert code == fenced(text)
        assert code == fenced(text, ITEM)

    def test_a_fence_that_is_never_closed_goes_on_to_the_end_of_a_document(self) -> None:
        assert ["```", "a", "# b", ""] == fenced("```\na\n# b\n")

    def test_a_deeply_indented_fence_is_ignored(self) -> None:
        assert [] == fenced("    ```\na\n    ```\n")
        assert [] == fenced("- ```\na\n- ```\n")
        assert ["```", "a", "    ```", "```"] == fenced("```\na\n    ```\n```\nb")

    def test_a_forgotten_fence_hides_no_item_of_a_list(self) -> None:
        assert [] == fenced("```\n- [ ] a\n", ITEM)
        assert ["  ```", "  x"] == fenced("- [ ] a\n  ```\n  x\n- [ ] b\n", ITEM)
        assert ["- ```", "x", "  ```"] == fenced("- ```\nx\n  ```\n- [ ] b", ITEM)

    def test_a_line_has_its_offset(self) -> None:
        text = "\ufeffa\r\nbc\rd\n"

        lines = read_lines(text)

        assert ["a", "bc", "d", ""] == [line.text for line in lines]
        assert all(text[line.start :].startswith(line.text) for line in lines)

    def test_thousands_of_open_fences_take_no_time(self) -> None:
        began = time.process_time()
        text = "".join(f"{'`' * (3 + i % 50)}\n- x\n" for i in range(10_000))
        read_lines(text, ITEM)

        assert time.process_time() - began < 10

    def test_an_indent_counts_columns(self) -> None:
        assert [0, 2, 4, 4, 5] == [indent_of(text) for text in ("a", "  a", "\ta", " \ta", "\t a")]


class TestSections:
    """A heading begins with hashes and a space, at the beginning of a line outside code."""

    def test_headings_have_level_place_and_title(self) -> None:
        found = [(heading.level, heading.line, heading.title) for heading in headings(SPEC)]

        assert [
            (1, 0, "Types"),
            (2, 1, "1. App"),
            (3, 7, "Kinds"),
            (2, 9, "2.1) Workflow"),
        ] == found

    @pytest.mark.parametrize("line", ["##", "##a", " ## a", "####### a", "a\n==="])
    def test_other_lines_are_none(self, line: str) -> None:
        assert [] == headings(line)

    @pytest.mark.parametrize(
        ("title", "words", "expected"),
        [
            ("Scope", "Scope", True),
            ("scope of this", "Scope", True),
            ("Scope/Limits", "Scope", True),
            ("Scoped", "Scope", False),
            ("The Scope", "Scope", False),
            ("a.b", "a+b", False),
        ],
    )
    def test_a_heading_begins_with_whole_words(
        self, title: str, words: str, expected: bool
    ) -> None:
        assert expected is headings(f"# {title}")[0].begins_with(words)

    def test_a_section_ends_at_the_next_heading_of_its_level(self) -> None:
        lines = SPEC.split("\n")

        assert lines[1:9] == section(SPEC, "app")
        assert lines[7:9] == section(SPEC, "Kinds")
        assert "A flow." == section(SPEC, "WORKFLOW")[1]
        assert [] == section(SPEC, "Not a heading")

    def test_a_table_is_read_and_written(self) -> None:
        text = ["before", "| a | b |", "|---|:-:|", r"| `x\|y` | z |", "", "| c |"]

        rows = table(text)

        assert [["a", "b"], [r"`x\|y`", "z"]] == rows
        assert ["| a | b |", "|---|---|", r"| `x\|y` | z |"] == table_lines(rows)
        assert [["a"], ["b"]] == table(["| a |", "| b |"])
        assert [] == table(["no table"])
