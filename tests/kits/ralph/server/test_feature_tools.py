"""Features: creating, changing, listing and deleting their rows."""

from pathlib import Path
from typing import Any

import pytest
from driving import Driver, query
from feature_rows import feature, stored


def test_a_created_feature_holds_every_argument(project: Path, server: Driver) -> None:
    (project / "src").mkdir()
    (project / "src" / "pay.ts").touch()
    given = {
        "description": "d" * 3000,
        "acronym": "PAY1",
        "knowledge_paths": ["docs/pay.md"],
        "context_files": ["src/pay.ts", "src/gone.ts"],
        "architecture": "a",
        "boundaries": "b",
        "dependencies": ["needs auth", "auth"],
    }
    answer = server.call("create_feature", name="pay", display_name="Pay", **given)
    shown = server.call("get_feature", name="pay")

    assert ("pay", "PAY1") == (answer["name"], answer["acronym"])
    assert {**given, "name": "pay", "display_name": "Pay"}.items() <= shown.items()
    assert ["src/gone.ts"] == shown["missing_files"]
    assert "[]" == stored(project, "pay", "learnings")


def test_acronyms_are_made_and_never_collide(server: Driver) -> None:
    made = [
        server.call("create_feature", name=name, display_name=shown)["acronym"]
        for name, shown in (
            ("bookmark-crud", "Bookmark Crud"),
            ("book-crumbs", "Book Crumbs"),
            ("bo-cr", "Bö Cr."),
            ("e-2-e", "!"),
        )
    ]

    assert ["BOCR", "B001", "B002"] == made[:3]
    assert len(made) == len(set(made))
    assert all(len(acronym) == 4 and acronym.isalnum() for acronym in made)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "Auth Flow"}, 'use "auth-flow"'),
        ({"name": ""}, "use lower-case letters and digits"),
        ({"name": "a" * 201}, "a name of 201 characters is too long: 200 is the most"),
        ({"name": "auth"}, 'the feature "auth" already exists'),
        ({"display_name": " "}, '"display_name" must not be blank'),
        ({"acronym": "abcd"}, "text that matches /^[A-Z0-9]{4}$/"),
        ({"acronym": "SRCH"}, 'the acronym "SRCH" belongs to "search": use another, or omit it'),
        ({"description": "d" * 3001}, "at most 3000 characters"),
        ({"architecture": "d" * 3001}, "at most 3000 characters"),
        ({"boundaries": "d" * 1501}, "at most 1500 characters"),
        ({"context_files": ["a/../b"]}, '"context_files": the path "a/../b" has ".."'),
        ({"knowledge_paths": ["https://x"]}, '"knowledge_paths": the path "https://x" is a URL'),
        ({"context_files": [f"f{i}" for i in range(101)]}, "maximum is 100"),
        ({"learnings": []}, 'unknown argument "learnings"'),
    ],
)
def test_an_invalid_new_feature_is_refused(
    project: Path, server: Driver, change: dict[str, Any], sentence: str
) -> None:
    before = query(project, "SELECT * FROM features")
    text = server.refusal("create_feature", **{"name": "no", "display_name": "No", **change})

    assert sentence in text
    assert before == query(project, "SELECT * FROM features")


def test_similar_names_are_reported(server: Driver) -> None:
    assert ["auth"] == feature(server, "authentication")["similar"]


def test_a_change_keeps_learnings_and_omitted_fields(project: Path, server: Driver) -> None:
    feature(server, "patched", description="d", architecture="a", dependencies=["x"])
    server.call("append_feature_learning", feature_name="patched", text="Retries need a jitter")
    learnings = stored(project, "patched", "learnings")
    changed = server.call(
        "update_feature", name="patched", architecture=None, boundaries="b", clear=["dependencies"]
    )

    assert ["boundaries", "dependencies"] == changed["changed"]
    assert ("d", "a", "b", "[]", learnings) == tuple(
        stored(project, "patched", column)
        for column in ("description", "architecture", "boundaries", "dependencies", "learnings")
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "nothing to change"),
        ({"name": "Search", "description": "x"}, 'did you mean "search"?'),
        ({"display_name": ""}, '"display_name" must not be blank'),
        ({"acronym": "AUTH"}, 'the acronym "AUTH" belongs to "auth"'),
        ({"clear": ["display_name"]}, "expected one of"),
        ({"clear": ["acronym"]}, "expected one of"),
        ({"clear": ["boundaries"], "boundaries": "x"}, "is both set and named"),
        ({"displayname": "x"}, 'did you mean "display_name"?'),
        ({"context_files": ["c:\\x"]}, '"context_files": the path'),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    assert sentence in server.refusal("update_feature", **{"name": "search", **arguments})


def test_its_own_acronym_may_be_given_again(server: Driver) -> None:
    assert [] == server.call("update_feature", name="search", acronym="SRCH")["changed"]


def test_a_feature_with_tasks_remains_and_a_deleted_one_has_references(
    server: Driver,
) -> None:
    feature(server, "base")
    feature(server, "on-top", dependencies=["base", "based on nothing"])

    assert (
        'the feature "auth" cannot be deleted: task 1 "Log in" belongs to it'
    ) == server.refusal("delete_feature", name="auth")
    assert {
        "deleted": "base",
        "still_named_by": ['"dependencies" of the feature "on-top"'],
    } == server.call("delete_feature", name="base")
    assert 'there is no feature "base"' in server.refusal("delete_feature", name="base")


@pytest.mark.parametrize("limit", [1, 4])
def test_pages_hold_each_feature_once(project: Path, server: Driver, limit: int) -> None:
    names: list[str] = []
    cursor = None
    while True:
        answer = server.call("list_features", limit=limit, cursor=cursor)
        names += [row["name"] for row in answer["features"]]
        cursor = answer.get("next_cursor")
        if cursor is None:
            break

    assert [row[0] for row in query(project, "SELECT name FROM features ORDER BY name")] == names
    assert len(names) == answer["total"]
    assert "invalid cursor" in server.refusal("list_features", cursor="auth")
    assert "invalid cursor" in server.refusal("list_disciplines", cursor="50")
