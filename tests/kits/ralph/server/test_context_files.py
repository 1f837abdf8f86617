"""The context files of a feature: registered once, in one form, within the project."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, query
from feature_rows import feature, stored


def test_a_context_file_is_registered_once_in_one_form(project: Path, server: Driver) -> None:
    feature(server, "files", context_files=["src/a.ts"])
    query(project, "UPDATE features SET context_files = '[\"./src/b.ts\"]' WHERE name = 'files'")
    add = {"feature_name": "files"}
    added = [
        server.call("add_feature_context_file", **add, file_path=path)["added"]
        for path in ("src/b.ts", "src/a..c.ts", "./src//a..c.ts/")
    ]

    assert [False, True, False] == added
    assert ["./src/b.ts", "src/a..c.ts"] == json.loads(stored(project, "files", "context_files"))


def test_odd_context_files_are_warned_of(server: Driver) -> None:
    feature(server, "odd-files")
    add = {"feature_name": "odd-files"}

    assert ['"src/no.ts" does not exist in the project'] == server.call(
        "add_feature_context_file", **add, file_path="src/no.ts"
    )["warnings"]
    assert (
        "looks like a lock file"
        in server.call("add_feature_context_file", **add, file_path="bun.lockb")["warnings"][0]
    )


def test_a_feature_has_a_hundred_context_files_at_most(server: Driver) -> None:
    feature(server, "full", context_files=[f"f{n}" for n in range(100)])
    add = {"feature_name": "full"}
    there = server.call("add_feature_context_file", **add, file_path="f7")

    assert (False, 100, 100) == (there["added"], there["count"], there["limit"])
    assert "maximum is 100" in server.refusal("add_feature_context_file", **add, file_path="new")


NEW_TASK = {"feature": "auth", "discipline": "backend", "title": "t"}
NEW_FEATURE = {"name": "n", "display_name": "N"}


@pytest.mark.parametrize("path", ["", "../x", "x" * 1001])
@pytest.mark.parametrize(
    ("tool", "argument", "others"),
    [
        ("create_task", "context_files", NEW_TASK),
        ("create_task", "output_artifacts", NEW_TASK),
        ("update_task", "context_files", {"id": 1}),
        ("update_task", "output_artifacts", {"id": 1}),
        ("enrich_task", "context_files", {"id": 1, "pseudocode": "p"}),
        ("create_feature", "context_files", NEW_FEATURE),
        ("create_feature", "knowledge_paths", NEW_FEATURE),
        ("update_feature", "context_files", {"name": "auth"}),
        ("update_feature", "knowledge_paths", {"name": "auth"}),
        ("add_feature_context_file", "file_path", {"feature_name": "auth"}),
    ],
)
def test_no_path_argument_leads_out_of_the_project(
    project: Path, server: Driver, tool: str, argument: str, others: dict[str, Any], path: str
) -> None:
    query(project, "UPDATE tasks SET status = 'draft' WHERE id = 1")
    value = path if argument == "file_path" else ["src/fine.ts", path]

    assert f'"{argument}": ' in server.refusal(tool, **others, **{argument: value})
