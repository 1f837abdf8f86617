"""Disciplines: an agent's role, and secrets that no answer may show."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import Driver, query

KEPT_BACK = "hunter2-secret"
LOOK = {"icon": "Code", "color": "#068D87"}


def test_a_created_discipline_holds_every_argument(project: Path, server: Driver) -> None:
    given = {
        "icon": "Database",
        "color": "#7a10ff",
        "acronym": "DATA",
        "description": "d",
        "system_prompt": "You keep the data.",
        "skills": ["SQL", "indexes"],
        "conventions": "Plain names.",
    }
    answer = server.call("create_discipline", name="data", display_name="Data", **given)
    shown = server.call("get_discipline", name="data")

    assert {"name": "data", "acronym": "DATA"} == answer
    assert {"name": "data", "display_name": "Data", **given} == shown
    assert [(None, "[]")] == query(
        project, "SELECT image_path, mcp_servers FROM disciplines WHERE name = 'data'"
    )


def test_a_missing_acronym_is_derived(server: Driver) -> None:
    made = [
        server.call("create_discipline", name=name, display_name=shown, **LOOK)["acronym"]
        for name, shown in (
            ("nextjs_app_router", "Next.js App Router"),
            ("next-apples", "Next Apples"),
        )
    ]

    assert ["NEAR", "NEAP"] == made


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "Front End"}, 'use "front-end"'),
        ({"name": "frontend"}, 'the discipline "frontend" already exists'),
        ({"display_name": " "}, '"display_name" must not be blank'),
        ({"icon": " "}, '"icon" must not be blank'),
        ({"icon": None}, 'argument "icon" is null: expected a string'),
        ({"color": "red"}, 'argument "color" is "red": expected text that matches'),
        ({"color": "#068d87\n"}, "expected text that matches"),
        ({"acronym": "BACK"}, 'the acronym "BACK" belongs to "backend"'),
        ({"mcp_servers": []}, 'unknown argument "mcp_servers"'),
        ({"stack_id": 1}, 'unknown argument "stack_id"'),
        ({"skills": "a; b"}, "expected an array of strings"),
    ],
)
def test_an_invalid_new_discipline_is_refused(
    project: Path, server: Driver, change: dict[str, Any], sentence: str
) -> None:
    before = query(project, "SELECT * FROM disciplines")
    given = {"name": "no", "display_name": "No", **LOOK, **change}

    assert sentence in server.refusal("create_discipline", **given)
    assert before == query(project, "SELECT * FROM disciplines")


def test_a_change_leaves_portraits_and_servers_alone(project: Path, server: Driver) -> None:
    hidden = "image_path, crops, image_prompt, mcp_servers, stack_id"
    query(
        project,
        "UPDATE disciplines SET image_path = 'p.png', crops = '{}', image_prompt = '{', "
        "mcp_servers = '[ ]', stack_id = 2 WHERE name = 'frontend'",
    )
    changed = server.call(
        "update_discipline",
        name="frontend",
        skills=["CSS"],
        conventions="c",
        color="#000000",
        system_prompt=None,
    )

    assert ["color", "conventions", "skills"] == changed["changed"]
    assert [("p.png", "{}", "{", "[ ]", 2)] == query(
        project, f"SELECT {hidden} FROM disciplines WHERE name = 'frontend'"
    )
    assert ["skills"] == server.call("update_discipline", name="frontend", clear=["skills"])[
        "changed"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "nothing to change"),
        ({"name": "front-end", "icon": "X"}, 'did you mean "frontend"?'),
        ({"icon": ""}, '"icon" must not be blank'),
        ({"acronym": "BACK"}, 'the acronym "BACK" belongs to "backend"'),
        ({"clear": ["icon"]}, "expected one of"),
        ({"clear": ["mcp_servers"]}, "expected one of"),
        ({"conventions": "x", "clear": ["conventions"]}, "is both set and named"),
        ({"systemPrompt": "x"}, 'did you mean "system_prompt"?'),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    server: Driver, arguments: dict[str, Any], sentence: str
) -> None:
    assert sentence in server.refusal("update_discipline", **{"name": "frontend", **arguments})


@pytest.mark.parametrize(
    "servers",
    [
        [{"name": "db", "command": "npx", "args": ["-y"], "env": {"TOKEN": KEPT_BACK}}],
        [{"name": "db", "command": "npx", "env": [f"TOKEN={KEPT_BACK}"]}],
        [{"name": "db", "command": "npx", "env": f"TOKEN={KEPT_BACK}"}],
        [{"name": "db", "command": "npx", "headers": {"Authorization": KEPT_BACK}}],
        [{"name": "db", "command": "npx", "url": f"https://x/?key={KEPT_BACK}"}],
        [{"name": "db", "command": "npx", "env": {"TOKEN": {"deep": [KEPT_BACK]}}}],
        [{"name": "db", "command": "npx", "args": [f"--token={KEPT_BACK}"]}],
        [{"name": "db", "command": "npx", "args": ["--api-key", KEPT_BACK, "-p", KEPT_BACK]}],
        [{"name": "db", "command": "npx", "args": [f"https://me:{KEPT_BACK}@x/?a={KEPT_BACK}"]}],
        {"name": "db", "command": "npx", "env": {"TOKEN": KEPT_BACK}},
        [KEPT_BACK],
    ],
)
@pytest.mark.parametrize("form", ["json", "escaped", "broken"])
def test_no_answer_shows_the_environment_of_a_server(
    project: Path, server: Driver, servers: Any, form: str
) -> None:
    text = json.dumps(servers)
    text = text.replace('"', '\\"') if form == "escaped" else text
    text = text[:-1] if form == "broken" else text
    query(project, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'backend'", text)
    texts = [
        server.ask(tool, arguments)[1]
        for tool, arguments in (
            ("get_discipline", {"name": "backend"}),
            ("list_disciplines", {}),
            ("update_discipline", {"name": "backend", "conventions": form}),
            ("delete_discipline", {"name": "backend"}),
        )
    ]

    assert [] == [text for text in texts if KEPT_BACK in text]
    assert [(text,)] == query(project, "SELECT mcp_servers FROM disciplines WHERE name = 'backend'")
    if form != "broken" and isinstance(servers, list) and servers != [KEPT_BACK]:
        (shown,) = json.loads(texts[0])["mcp_servers"]

        assert ("db", "npx") == (shown["name"], shown["command"])


def test_a_server_is_shown_with_its_keys_and_without_its_credentials(
    project: Path, server: Driver
) -> None:
    remote = {
        "name": "wiki",
        "type": "http",
        "url": f"https://me:{KEPT_BACK}@wiki.example/mcp?key={KEPT_BACK}&room=1",
        "headers": {"Authorization": f"Bearer {KEPT_BACK}"},
    }
    local = {"name": "db", "command": "npx", "args": ["-y", f"--token={KEPT_BACK}", "--port", "1"]}
    text = json.dumps([remote, local])
    query(project, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'backend'", text)

    assert [
        {
            **remote,
            "url": "https://***@wiki.example/mcp?key=***&room=***",
            "headers": {"Authorization": "***"},
        },
        {**local, "args": ["-y", "--token=***", "--port", "1"]},
    ] == server.call("get_discipline", name="backend")["mcp_servers"]


def test_a_discipline_with_tasks_remains_and_a_deleted_one_reports_its_comments(
    project: Path, server: Driver
) -> None:
    server.call("create_discipline", name="leaver", display_name="Leaver", **LOOK)
    server.call("add_task_comment", task_id=1, author="leaver", body="b", discipline="leaver")

    assert (
        'the discipline "frontend" cannot be deleted: task 2 "Show the form" belongs to it'
    ) == server.refusal("delete_discipline", name="frontend")
    assert {"deleted": "leaver", "still_named_by": ["the author of 1 comment"]} == server.call(
        "delete_discipline", name="leaver"
    )
    assert [("leaver", None)] == query(project, "SELECT author, discipline FROM task_comments")
    assert 'there is no discipline "leaver"' in server.refusal("delete_discipline", name="leaver")


def test_the_list_shows_what_is_needed_to_choose(server: Driver) -> None:
    listed = server.call("list_disciplines")
    (row,) = [row for row in listed["disciplines"] if row["name"] == "backend"]

    assert {"name": "backend", "display_name": "Backend", "acronym": "BACK"} == row
    assert len(listed["disciplines"]) == listed["total"]
