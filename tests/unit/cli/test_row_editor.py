"""A row as TOML for an editor: untouched fields are kept, and cut values are never written."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.cli.row_commands import as_toml, changed_fields

SCHEMAS: dict[str, dict[str, Any]] = {
    "title": {"type": "string"},
    "description": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "depends_on": {"type": "array", "items": {"type": "integer"}},
    "estimated_turns": {"type": "integer"},
    "Ärger & co": {"type": "string"},
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
RECORDS = st.fixed_dictionaries(
    {"title": TEXT},
    optional={
        "description": st.lists(TEXT, min_size=1).map("\n".join),
        "tags": st.lists(TEXT, min_size=1),
        "depends_on": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        "estimated_turns": st.integers(),
        "Ärger & co": TEXT,
    },
)


@settings(max_examples=examples(300))
@given(RECORDS)
def test_untouched_fields_are_unchanged(record: dict[str, object]) -> None:
    assert {} == changed_fields(as_toml(record, SCHEMAS, "task 7"), record, SCHEMAS)


def test_lines_are_edited_as_lines() -> None:
    text = as_toml({"title": "T", "description": 'a "b"\n\\c\n'}, SCHEMAS, "task 7")

    assert 'description = """\na "b"\n\\\\c\n"""\n' in text


def test_changes_additions_and_removals_are_distinguished() -> None:
    record = {"title": "T", "description": "D", "tags": ["a"], "estimated_turns": 3}
    edited = 'title = "T2"\ntags = ["a"]\nestimated_turns = 3\ndepends_on = [1]\ncolour = "red"\n'

    assert {
        "title": "T2",
        "depends_on": [1],
        "colour": "red",
        "description": None,
    } == changed_fields(edited, record, SCHEMAS)
    assert {"description": None, "tags": None} == changed_fields(
        'title = "T"\ndescription = ""\ntags = []\nestimated_turns = 3\n', record, SCHEMAS
    )


def test_cut_and_unreadable_fields_are_not_offered() -> None:
    record = {
        "title": "T",
        "description": "much…",
        "tags": ["a"],
        "cut": ["description", "tags.0"],
        "unreadable": {"depends_on": "[["},
    }
    text = as_toml(record, SCHEMAS, "task 7")

    for name in ("description", "tags", "depends_on"):
        assert f"# {name} is too long or has another form; it is unchanged\n" in text
    assert {} == changed_fields(text, record, SCHEMAS)
