"""Docstrings, comments and cells: no text breaks out of them, and no linter minds it."""

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from spelling_oracle import HOSTILE, RULES, TEXTS, findings, formatting

from ralphgen.spelling import comment, docstring, markdown_cell

PROSE = [
    *(
        "Args:",
        "Returns",
        "See also",
        "x = 1",
        "TODO:",
        "todo fix it",
        "noqa",
        "# noqa",
        "fmt: off",
    ),
    *("type: ignore", "ruff: noqa", "coding: utf-7", "import os", "print(1)", "list_tasks", "\n\n"),
    *("x" * 120, "lower", "a.", "b?", "c:", "-", "1.", "iPhone", "importX", "# type: ignore"),
]
SENTENCES = st.one_of(
    TEXTS, st.lists(st.sampled_from([*PROSE, *HOSTILE]), max_size=40).map(" ".join)
)


@pytest.mark.slow
@given(texts=st.lists(SENTENCES, min_size=10, max_size=20))
@settings(max_examples=examples(20), deadline=None)
def test_the_linter_and_the_formatter_leave_docstrings_and_comments_alone(texts: list[str]) -> None:
    lines = [docstring(texts[0]), ""]
    for number, text in enumerate(texts):
        lines += ["", f"def function_{number}() -> None:", f"    {docstring(text, 4)}", ""]
    lines += [""]
    for number, text in enumerate(texts):
        lines += [comment(text), f"VALUE_{number} = 1"]
    source = "\n".join([*lines, ""])

    assert formatting(source) == ""
    assert findings(source, f"{RULES},RUF100") == ""


def letters(text: str) -> str:
    """Return a text without the parts that a docstring may change: spaces, stops and capitals."""
    return re.sub(r"[\s.:;,]", "", text).casefold()


@given(text=SENTENCES.filter(lambda text: text.split() != []))
@settings(max_examples=examples(150), deadline=None)
def test_a_docstring_has_the_words_of_its_text(text: str) -> None:
    module = ast.parse(docstring(text).encode())

    assert letters(text) == letters(ast.get_docstring(module) or "")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("reads a task", '"""Reads a task."""'),
        ("list_tasks lists:", '"""list_tasks lists."""'),
        ('ends in """', '"""Ends in "\\u0022\\u0022."""'),
        ('"quoted" \\', '"""\\u0022quoted" \\u005c."""'),
        ("", '"""Empty."""'),
        ("one\n\ntwo", '"""One.\n\n    Two.\n    """'),
        (
            "Short sentence. " + "word " * 19,
            f'"""Short sentence.\n\n    Word {"word " * 17}word.\n    """',
        ),
        ("word " * 30, f'"""Word {"word " * 16}word...\n\n    Word {"word " * 10}word.\n    """'),
    ],
)
def test_docstrings_are_spelled_so(text: str, spelled: str) -> None:
    assert spelled == docstring(text, 4)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("one tool a line", "# one tool a line"),
        ("two\nlines", "# two lines"),
        ("noqa", "# \u201cnoqa\u201d"),
        ("x = 1", "# \u201cx = 1\u201d"),
        ("a word # noqa", "# a word \\u0023 noqa"),
        ("a word coding: utf-7", "# a word coding : utf-7"),
        ("some word " * 12, f"# {'some word ' * 9}some..."),
    ],
)
def test_comments_are_spelled_so(text: str, spelled: str) -> None:
    assert spelled == comment(text)


@given(text=SENTENCES)
def test_a_comment_is_one_line_without_effect(text: str) -> None:
    line = comment(text)

    assert ast.unparse(ast.parse(line.encode())) == ""
    assert [line] == line.splitlines()
    assert not re.search(r"coding[:=]", line)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain list_tasks text", "plain list_tasks text"),
        ("a|b\nc", "a\\|b c"),
        ("`x` <b>&amp;", "\\`x\\` &lt;b&gt;&amp;amp;"),
        ("![a](http://b)", "!\\[a\\](http://b)"),
        ("_a_ *b* \\", "\\_a\\_ \\*b\\* \\\\"),
        ("\u202eabc", "\\\\u202eabc"),
        ("", ""),
    ],
)
def test_cells_are_spelled_so(text: str, cell: str) -> None:
    assert cell == markdown_cell(text)


@given(text=SENTENCES)
def test_a_cell_never_ends_its_row(text: str) -> None:
    cell = markdown_cell(text)

    assert [cell] == (cell.splitlines() or [""])
    assert not re.search(r"(?<!\\)(\\\\)*[|`<>]", cell)
