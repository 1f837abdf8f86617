"""Specs of artifacts, stubs, and the specs of rules and CLAUDE.md: each value, one document."""

from typing import Any

import pytest
from acm_projects import CLAUDE_STUBS, LEVELS, SPECS, STUBS, Library

CASES = [
    *(("get_artifact_spec", {"artifact": value}, name) for value, name in SPECS.items()),
    *(("get_artifact_stub", {"artifact": value}, name) for value, name in STUBS.items()),
    *(
        ("get_artifact_stub", {"artifact": "claude_md", "project_type": value}, name)
        for value, name in CLAUDE_STUBS.items()
    ),
    *(("get_context_spec", {"level": value}, name) for value, name in LEVELS.items()),
    ("get_rules_spec", {}, SPECS["rules"]),
]
KINDS = {
    "get_artifact_spec": "artifact spec",
    "get_artifact_stub": "stub",
    "get_context_spec": "context spec",
    "get_rules_spec": "rules spec",
}


@pytest.mark.parametrize(("tool", "arguments", "name"), CASES)
def test_each_value_returns_its_document_or_names_the_missing_one(
    library: Library, tool: str, arguments: dict[str, Any], name: str
) -> None:
    path = library.documents / name
    expected = path.read_bytes().decode()

    assert expected == library.says(tool, **arguments)
    path.unlink()
    assert library.refuses(tool, **arguments).startswith(
        f'the {KINDS[tool]} "{name}" does not exist'
    )


def test_the_stub_of_claude_md_defaults_to_an_app(library: Library) -> None:
    assert CLAUDE_STUBS["app"] in library.says("get_artifact_stub", artifact="claude_md")


def test_other_stubs_ignore_the_project_type(library: Library) -> None:
    text = library.says("get_artifact_stub", artifact="brief", project_type="workflow")

    assert STUBS["brief"] in text


def test_a_document_with_two_names_is_the_same_under_both(library: Library) -> None:
    design = library.says("get_stage", stage="design")
    rules = library.says("get_rules_spec")

    assert design == library.says("get_artifact_spec", artifact="design")
    assert rules == library.says("get_artifact_spec", artifact="rules")


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("get_artifact_spec", {}, 'argument "artifact" is missing'),
        ("get_artifact_spec", {"artifact": "claude_md"}, '"folder_structure"'),
        ("get_artifact_spec", {"artifact": "BRIEF"}, 'did you mean "brief"?'),
        ("get_artifact_stub", {"artifact": "backlog"}, '"rules_constraints"'),
        ("get_artifact_stub", {"artifact": "brief", "project_type": "library"}, '"workflow"'),
        ("get_context_spec", {}, 'argument "level" is missing'),
        ("get_context_spec", {"level": "../../etc/passwd"}, '"global", "project"'),
        ("get_rules_spec", {"level": "project"}, "this tool takes no arguments"),
    ],
)
def test_wrong_arguments_are_named(
    library: Library, tool: str, arguments: dict[str, Any], named: str
) -> None:
    assert named in library.refuses(tool, **arguments)
