"""Resources are no longer than answers of tools; a cursor in the URI leads to the rest."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from driving import create_project, query
from wire import Wire, running

MOST = 40_000  # characters of a resource
TEXT = 'long "\\ \u00fc \U0001f600 \x01\n' * 9_000
TAGS = [*(f"tag {n}" for n in range(5_000)), "x" * 50_000, "y" * 90_000, "end"]
BODIES = [*(f"comment {n} " + "c" * 500 for n in range(150)), "b" * 90_000, "last"]
NEEDED = range(10, 1_500)
WAITING = range(2_000, 4_500)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("long") / "p")
    numbered = "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    for ids, needs in ((NEEDED, "[]"), (WAITING, "[1]")):
        query(
            root,
            "INSERT INTO tasks (id, feature, discipline, title, depends_on) "
            f"{numbered} SELECT i, 'auth', 'backend', 'Task ' || i, ? FROM n",
            *(ids[0], ids[-1], needs),
        )
    query(
        root,
        "UPDATE tasks SET description = ?, tags = ?, depends_on = ? WHERE id = 1",
        *(TEXT, json.dumps(TAGS), json.dumps([*NEEDED])),
    )
    query(root, "DELETE FROM task_comments")
    for body in BODIES:
        query(root, "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'a', ?)", body)
    (root / ".ralph/progress.txt").write_text("- entry\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Wire]:
    with running(root) as server:
        server.shake_hands()
        yield server


def text_at(server: Wire, uri: str) -> str:
    (contents,) = server.ask("resources/read", {"uri": uri})["result"]["contents"]
    text: str = contents["text"]

    assert MOST >= len(json.dumps(text, ensure_ascii=False)) or MOST >= len(text)
    return text


def pages(server: Wire, uri: str) -> Iterator[Mapping[str, Any]]:
    """Yield the pages of a resource, starting at a URI."""
    following: str | None = uri
    while following:
        page = json.loads(text_at(server, following))
        following = page.get("next")
        yield page


def items(server: Wire, uri: str, name: str) -> Iterator[Any]:
    """Yield the items of a part, with split ones joined."""
    pieces = ""
    for page in pages(server, uri):
        pieces += page.get("piece", "")
        if pieces and "." not in page.get("next", ""):
            yield json.loads(pieces)
            pieces = ""
        yield from page[name]


@pytest.fixture(scope="module")
def task(server: Wire) -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads(text_at(server, "ralph://tasks/1"))
    return record


def test_a_long_task_names_the_resource_of_each_cut_part(task: Mapping[str, Any]) -> None:
    names = ["comments", "dependencies", "dependents", "depends_on", "description", "tags"]

    assert {name: f"ralph://tasks/1?cursor={name}" for name in names} == task["more"]
    assert len(BODIES) == task["comments_total"]
    assert "last" == task["comments"][-1]["body"]


def test_a_long_text_is_all_of_its_pages(server: Wire, task: Mapping[str, Any]) -> None:
    found = [page["description"] for page in pages(server, task["more"]["description"])]

    assert TEXT == "".join(found)
    assert len(found) > 3


def test_long_lists_are_all_of_their_pages(server: Wire, task: Mapping[str, Any]) -> None:
    assert TAGS == [*items(server, task["more"]["tags"], "tags")]
    assert [*NEEDED] == [*items(server, task["more"]["depends_on"], "depends_on")]


def test_every_comment_is_on_a_page(server: Wire, task: Mapping[str, Any]) -> None:
    found = [*items(server, task["more"]["comments"], "comments")]

    assert BODIES == [comment["body"] for comment in found]
    assert task["comments"][-1] == found[-1]


def test_every_dependency_and_dependent_is_on_a_page(server: Wire, task: Mapping[str, Any]) -> None:
    needed = [*items(server, task["more"]["dependencies"], "dependencies")]
    waiting = [*items(server, task["more"]["dependents"], "dependents")]

    assert [*NEEDED] == [row["id"] for row in needed]
    assert {2, *WAITING} >= {row["id"] for row in waiting} >= {*WAITING}
    assert len(waiting) == len({row["id"] for row in waiting})
    assert task["dependents"][:50] == waiting[:50]


def test_a_short_task_is_whole(server: Wire) -> None:
    record = json.loads(text_at(server, "ralph://tasks/10"))

    assert not {"cut", "more"} & record.keys()


@pytest.mark.parametrize("name", ["progress", "learnings"])
def test_a_state_file_is_all_of_its_pages(root: Path, server: Wire, name: str) -> None:
    """The newest entries come first, and a line above them names the location of older ones."""
    stored = "".join(f"- entry {n} \u00fc\n" for n in range(9_000)) + f"- {'long ' * 30_000}\n"
    (root / ".ralph" / f"{name}.txt").write_text(stored, encoding="utf-8")
    found, uri = "", f"ralph://{name}"
    while uri:
        text = text_at(server, uri)
        older = re.match(r"\(older entries: (\S+)\)\n", text)
        uri = older[1] if older else ""
        found = text[older.end() if older else 0 :] + found

    assert stored == found


@pytest.mark.parametrize(
    "uri",
    [
        "tasks/1?cursor=", "tasks/1?cursor=x", "tasks/1?cursor=title:", "tasks/1?cursor=id",
        "tasks/1?cursor=tags:1.", "tasks/1?cursor=tags:x", "tasks/1?cursor=comments:9" + 19 * "9",
        "tasks/1?cursor=\u0661", "tasks/1?after=1", "tasks/99999?cursor=tags",
        "features/auth?cursor=x", "progress?cursor=x", "progress?cursor=", "progress?cursor=-1",
        "progress?cursor=" + 17 * "9", "progress?x",
    ],
)  # fmt: skip
def test_a_cursor_that_leads_nowhere_is_not_there(server: Wire, uri: str) -> None:
    error = server.ask("resources/read", {"uri": f"ralph://{uri}"})["error"]

    assert (-32602, {"uri": f"ralph://{uri}"}) == (error["code"], error["data"])


def test_a_place_behind_the_end_is_an_empty_page(server: Wire) -> None:
    for name in ("tags", "comments", "dependents"):
        page = {"id": 1, name: []}
        assert page == json.loads(text_at(server, f"ralph://tasks/1?cursor={name}:99999"))
