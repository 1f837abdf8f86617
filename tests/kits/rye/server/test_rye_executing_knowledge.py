"""Knowledge that is executed: all that it says of itself and its whole text, also when signed."""

import json
from typing import Any

import pytest
from rye_projects import Rye, knowledge

ENTRY = {"item_type": "knowledge", "item_id": "api/retry"}
FIELDS = """\
id: retry
title: "Retries --- and when to stop"
version: 1.0.0
entry_type: decision
category: api
# a comment
author: O'Neil
created_at: 2026-02-03
updated_at: 2026-02-03T10:20:30Z
attempts: 3
ratio: 0.5
final: true
nothing: null
tags:
  - http
  - limits
references: [one, two]
nested:
  deep: {deeper: [1, 2]}
"""
BODY = "# Retries\n\nThree times.\n\n---\n\nAnd then no more.\n"
EXPECTED = {
    "id": "api/retry",
    "title": "Retries --- and when to stop",
    "version": "1.0.0",
    "entry_type": "decision",
    "category": "api",
    "author": "O'Neil",
    "created_at": "2026-02-03",
    "attempts": 3,
    "ratio": 0.5,
    "final": True,
    "nothing": None,
    "tags": ["http", "limits"],
    "references": ["one", "two"],
    "nested": {"deep": {"deeper": [1, 2]}},
}
SHAPES = {
    "front matter": f"---\n{FIELDS}---\n\n{BODY}",
    "fenced": f"# Retries\n\n```yaml\n{FIELDS}```\n\n{BODY}",
}


def told(rye: Rye) -> dict[str, Any]:
    data: dict[str, Any] = rye.run("knowledge", "api/retry")["data"]
    return data


@pytest.mark.parametrize("shape", SHAPES)
def test_every_field_is_told_as_it_was_meant(rye: Rye, shape: str) -> None:
    """Also lists over several lines, dates, numbers, and a title that holds three hyphens."""
    rye.put("knowledge", "api/retry", SHAPES[shape])
    data = told(rye)

    assert EXPECTED == {name: data.get(name, ...) for name in EXPECTED}
    assert data["updated_at"].startswith("2026-02-03T10:20:30")


@pytest.mark.parametrize("shape", SHAPES)
def test_signing_changes_nothing_of_what_it_says(rye: Rye, shape: str) -> None:
    path = rye.put("knowledge", "api/retry", SHAPES[shape])
    before = told(rye)
    rye.sign("knowledge", "api/retry")
    once = told(rye)
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    rye.sign("knowledge", "api/retry")

    assert "valid" == rye.run("knowledge", "api/retry")["metadata"]["signature"]
    assert before == once == told(rye)
    assert "rye:signed" not in json.dumps(once)


def test_it_comes_with_what_to_do_with_it(rye: Rye) -> None:
    rye.put("knowledge", "api/retry")
    answer = rye.run("knowledge", "api/retry")

    assert ("success", "knowledge", "project") == (
        answer["status"],
        answer["type"],
        answer["source"],
    )
    assert "Apply this knowledge" in answer["instructions"]
    assert isinstance(answer["metadata"]["duration_ms"], int)
    assert "chain" not in answer


def test_nothing_is_put_into_it(rye: Rye) -> None:
    body = "Write {input:who} and ${HOME} and {project_path}.\n"
    rye.put("knowledge", "api/retry", knowledge("api/retry", body))

    assert body.strip() == told(rye)["content"].strip()


def test_the_first_space_that_has_it_is_meant_unless_one_is_named(rye: Rye) -> None:
    for space in ("project", "user"):
        rye.put("knowledge", "api/retry", knowledge("api/retry", f"Of the {space}.\n"), space=space)
    rye.put("knowledge", "rye/tool-format", knowledge("rye/tool-format", "Mine.\n"), space="user")
    ours = rye.run("knowledge", "rye/tool-format")
    theirs = rye.says("execute", item_type="knowledge", item_id="rye/tool-format", source="system")
    users = rye.says("execute", **ENTRY, source="user")

    assert "Of the project." == told(rye)["content"].strip()
    assert ("user", "Of the user.") == (users["source"], users["data"]["content"].strip())
    assert ("user", "Mine.") == (ours["source"], ours["data"]["content"].strip())
    assert ("system", "valid") == (theirs["source"], theirs["metadata"]["signature"])
