"""The server on PostgreSQL answers as it does on SQLite."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from driving import Driver, connected, context_for, on_context, server_command
from engines import VARIABLE, move, on_both
from lanes import shortened
from postgresql import needs_postgresql

from ralphgen.ledger.record import read_entries
from ralphgen.ledger.undo import undo_session

pytestmark = needs_postgresql

Call = tuple[str, dict[str, Any]]
Pair = tuple[Driver, Driver]
NAMES = ("auth", "search", "pay-ments", "Nowhere", "", "a\u00e9", "'; DROP TABLE tasks; --", '"')
IDS = (1, 2, 3, 4, 0, -1, 99, 2**31, 2**62)
TEXTS = ("Log in", "log IN", "x", " ", "\u00c4rger %s ? $1", "line\nline", "a" * 3_000)
LISTS: tuple[list[int], ...] = ([], [1], [1, 2], [3], [2, 2], [99], [4])
CALLS: Sequence[Call] = (
    ("list_tasks", {}),
    ("list_tasks", {"filter_status": "pending", "filter_feature": "auth", "limit": 1}),
    ("list_tasks", {"filter_status": "pending", "limit": 1, "cursor": "1"}),
    ("list_tasks", {"filter_ready": True}),
    ("list_tasks", {"filter_ready": True, "filter_feature": "auth", "limit": 1}),
    ("list_tasks", {"filter_feature": "atuh"}),
    ("list_tasks", {"cursor": "x"}),
    ("get_task", {"id": 1}),
    ("get_task", {"id": 99}),
    ("get_task", {"id": 2**40}),
    ("get_task", {"id": 2**70}),
    ("create_task", {"title": "Pay", "feature": "auth", "discipline": "backend"}),
    ("create_task", {"title": "LOG in", "feature": "auth", "discipline": "backend"}),
    ("create_task", {"title": "\u00c4", "feature": "auth", "discipline": "backend"}),
    ("create_task", {"title": "\u00e4", "feature": "auth", "discipline": "backend"}),
    ("create_task", {"title": "Pay", "feature": "nope", "discipline": "backend"}),
    ("create_task", {"title": " ", "feature": "auth", "discipline": "backend"}),
    ("create_task", {"title": "A", "feature": "auth", "discipline": "backend", "depends_on": [9]}),
    ("create_task", {"title": "B\0", "feature": "auth", "discipline": "backend"}),
    (
        "create_task",
        {
            "title": "All",
            "feature": "search",
            "discipline": "frontend",
            "status": "pending",
            "description": "d ? %s $1 'q'",
            "priority": "high",
            "tags": ["a", "b;c"],
            "depends_on": [1, 3],
            "acceptance_criteria": ["one"],
            "context_files": ["a.py"],
            "hints": "h",
            "estimated_turns": 3,
        },
    ),
    ("get_task", {"id": 7}),
    ("update_task", {"id": 3, "title": "Pay now", "depends_on": [2], "clear": ["description"]}),
    ("update_task", {"id": 1, "depends_on": [3]}),
    ("update_task", {"id": 1, "depends_on": [1]}),
    ("update_task", {"id": 3, "title": "Pay now", "depends_on": [2]}),
    ("update_task", {"id": 99, "title": "x"}),
    ("update_task", {"id": 3}),
    ("set_task_status", {"id": 1, "status": "in_progress"}),
    ("set_task_status", {"id": 1, "status": "done", "summary": "Works."}),
    ("set_task_status", {"id": 1, "status": "done"}),
    ("set_task_status", {"id": 2, "status": "blocked", "reason": "No key."}),
    ("set_task_status", {"id": 2, "status": "skipped", "reason": "x"}),
    ("set_task_status", {"id": 2, "status": "skipped"}),
    ("set_task_status", {"id": 99, "status": "done"}),
    ("enrich_task", {"id": 3, "pseudocode": "do it"}),
    ("enrich_task", {"id": 1, "pseudocode": "do it"}),
    ("delete_task", {"id": 1}),
    ("delete_task", {"id": 99}),
    ("delete_task", {"id": 6}),
    ("add_task_comment", {"task_id": 2, "body": "Who?"}),
    ("add_task_comment", {"task_id": 2, "body": "Me.", "author": "Ann"}),
    ("add_task_comment", {"task_id": 99, "body": "Who?"}),
    ("add_task_comment", {"task_id": 2, "body": " "}),
    ("update_task_comment", {"task_id": 2, "comment_id": 2, "body": "What?"}),
    ("update_task_comment", {"task_id": 1, "comment_id": 2, "body": "What?"}),
    ("get_task", {"id": 2}),
    ("delete_task_comment", {"task_id": 2, "comment_id": 2}),
    ("delete_task_comment", {"task_id": 2, "comment_id": 2}),
    ("list_features", {"limit": 1}),
    ("list_features", {"limit": 1, "cursor": "61757468.t"}),
    ("list_features", {"cursor": "zz"}),
    ("create_feature", {"name": "Zed", "display_name": "Zed"}),
    ("create_feature", {"name": "auths", "display_name": "Auths"}),
    ("create_feature", {"name": "auth", "display_name": "Auth"}),
    ("create_feature", {"name": "zed", "display_name": "Zed", "acronym": "AUTH"}),
    ("create_feature", {"name": "a_b", "display_name": "A B", "acronym": "ABBB"}),
    ("create_feature", {"name": "a-b", "display_name": "A B"}),
    ("list_features", {}),
    ("update_feature", {"name": "auth", "description": "Who is who", "dependencies": ["search"]}),
    ("update_feature", {"name": "auth", "acronym": "ABBB"}),
    ("update_feature", {"name": "nope", "description": "x"}),
    ("append_feature_learning", {"feature_name": "auth", "text": "Tokens expire.", "task_id": 1}),
    ("append_feature_learning", {"feature_name": "auth", "text": "Tokens  expire."}),
    ("append_feature_learning", {"feature_name": "auth", "text": "Say \u00fc.", "task_id": 999}),
    ("append_feature_learning", {"feature_name": "nope", "text": "x"}),
    ("add_feature_context_file", {"feature_name": "auth", "file_path": "src/a.py"}),
    ("add_feature_context_file", {"feature_name": "auth", "file_path": "./src//a.py"}),
    ("add_feature_context_file", {"feature_name": "auth", "file_path": "../a.py"}),
    ("get_feature", {"name": "auth"}),
    ("get_feature", {"name": "nope"}),
    ("delete_feature", {"name": "auth"}),
    ("delete_feature", {"name": "auths"}),
    ("delete_feature", {"name": "nope"}),
    ("list_disciplines", {}),
    ("get_discipline", {"name": "backend"}),
    ("get_discipline", {"name": "Backend"}),
    ("create_discipline", {"name": "qa", "display_name": "QA", "icon": "Bug", "color": "#112233"}),
    ("create_discipline", {"name": "qa", "display_name": "QA", "icon": "Bug", "color": "#112233"}),
    ("update_discipline", {"name": "qa", "skills": ["a"], "system_prompt": "Test."}),
    ("delete_discipline", {"name": "backend"}),
    ("delete_discipline", {"name": "qa"}),
    ("get_project_info", {}),
    ("get_project_progress", {}),
    ("append_learning", {"text": "Look twice."}),
    ("append_learning", {"text": "Look twice."}),
    ("read_learnings", {}),
    ("append_progress", {"text": "Begun."}),
    ("read_progress", {"limit": 1}),
    ("delete_task", {"id": 7}),
    ("create_task", {"title": "Again", "feature": "auth", "discipline": "backend"}),
    ("list_tasks", {"filter_status": "draft"}),
    ("no_such_tool", {}),
)
URIS = (
    "ralph://features/auth",
    "ralph://features/nope",
    "ralph://disciplines/backend",
    "ralph://tasks/2",
    "ralph://tasks/99",
    "ralph://progress",
)
# Different wordings: of SQLite, and of PostgreSQL.
WORDINGS = {
    '"title" contains the character U+0000, which the database cannot store: remove it': (
        "a string contains the character U+0000, which the database cannot store"
    )
}
STAMPS = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|\+00:00)?)?"


def without_times(text: str) -> str:
    """Return an answer without its times."""
    return re.sub(STAMPS, "WHEN", text)


def call_tool(server: Driver, tool: str, arguments: Mapping[str, Any]) -> tuple[object, str]:
    """Return whether a call failed, and its answer, in the wording of PostgreSQL."""
    try:
        failed, text = server.ask(tool, arguments)
    except Exception as error:  # noqa: BLE001 - whatever the SDK's client raises has to be equal
        return type(error).__name__, without_times(str(error))
    return failed, WORDINGS.get(text, without_times(text))


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Pair]:
    with (
        on_both(tmp_path) as (ours, theirs, dsn),
        connected(ours) as sqlite,
        connected(theirs, env={VARIABLE: dsn}) as postgresql,
    ):
        yield sqlite, postgresql


@pytest.mark.thorough
def test_every_tool_answers_the_same(both: Pair) -> None:
    sqlite, postgresql = both
    names = sqlite.names()

    assert sqlite.tools() == postgresql.tools()
    assert {name for name, _ in CALLS} >= set(names)
    for tool, arguments in CALLS:
        expected, found = (call_tool(server, tool, arguments) for server in both)
        assert (tool, arguments, expected) == (tool, arguments, found)
    assert postgresql.names() == names


@pytest.mark.thorough
def test_the_journal_of_a_session_and_of_its_undo_is_the_same(tmp_path: Path) -> None:
    with on_both(tmp_path, ledger=True) as (ours, theirs, dsn):
        for root, env in ((ours, {}), (theirs, {VARIABLE: dsn})):
            with connected(root, env=env) as server:
                for tool, arguments in CALLS:
                    call_tool(server, tool, arguments)
        expected, found = journal(ours), journal(theirs)
        assert expected == found
        assert {"tasks", "task_comments", "features", "disciplines", "progress.txt"} <= {
            json.loads(table) for _, _, table, *_ in found
        }
        for root in (ours, theirs):
            (root / ".ralph/backups").mkdir(exist_ok=True)
            undo_session(root, "test")
        expected, found = journal(ours), journal(theirs)
        assert '"undo test"' in {tool for _, tool, *_ in found}
        assert sorted(expected) == sorted(found)


def journal(root: Path) -> list[tuple[str, ...]]:
    """Return the journal without times: session, tool, table, row, before and after.

    A JSON column contains a list in PostgreSQL and its text in SQLite.
    """
    found = []
    for entry in read_entries(root):
        facts = entry.as_json()
        sides = (
            {name: one if isinstance(one, str) else json.dumps(one) for name, one in side.items()}
            for side in (entry.before or {}, entry.after or {})
        )
        texts = (json.dumps(facts[key]) for key in ("session", "tool", "table", "row"))
        whole = (*texts, *(json.dumps(side).replace(", ", ",") for side in sides))
        found.append(
            tuple(re.sub(r"undo-[0-9TZ]+-[0-9a-f]+", "undo", without_times(one)) for one in whole)
        )
    return found


def some_call(random: Random) -> Call:
    """Return a random call, which may be refused; comments are not deleted."""
    name, task = random.choice(NAMES), random.choice(IDS)
    home = {"feature": random.choice(NAMES[:2]), "discipline": random.choice(("backend", "qa"))}
    text, needed = random.choice(TEXTS), random.choice(LISTS)
    statuses = ("draft", "pending", "in_progress", "done", "blocked", "skipped")
    calls: Sequence[Call] = (
        ("create_task", {"title": text, **home, "depends_on": needed}),
        ("create_task", {"title": text, **home, "description": text, "tags": [text]}),
        ("update_task", {"id": task, "depends_on": needed, "description": text}),
        ("update_task", {"id": task, "title": text, "clear": ["priority"]}),
        ("set_task_status", {"id": task, "status": random.choice(statuses)}),
        ("set_task_status", {"id": task, "status": "done", "summary": text}),
        ("enrich_task", {"id": task, "pseudocode": text}),
        ("delete_task", {"id": task}),
        ("add_task_comment", {"task_id": task, "body": text}),
        ("create_feature", {"name": name, "display_name": text}),
        ("update_feature", {"name": name, "description": text}),
        ("delete_feature", {"name": name}),
        ("append_feature_learning", {"feature_name": name, "text": text, "task_id": task}),
        ("update_discipline", {"name": "backend", "description": text}),
        ("get_task", {"id": task}),
        ("get_feature", {"name": name}),
        ("list_tasks", {"filter_ready": True}),
        ("list_tasks", {"filter_feature": name}),
        ("list_features", {"limit": 2}),
        ("get_project_progress", {}),
    )
    return random.choice(calls)


@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 7)),
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(7, 40)),
    ],
)
def test_random_calls_are_answered_the_same(both: Pair, seed: int) -> None:
    """Except for numbers of comments: a sequence gives one also to a call that is refused."""
    random = Random(seed)  # noqa: S311 - the same calls in each run
    for _ in range(120):
        tool, arguments = some_call(random)
        expected, found = (unnumbered(call_tool(server, tool, arguments)) for server in both)
        assert (tool, arguments, expected) == (tool, arguments, found)


def unnumbered(answer: tuple[object, str]) -> tuple[object, object]:
    """Return an answer without comment ids."""
    try:
        facts = json.loads(answer[1])
    except ValueError:  # a refusal
        return answer
    facts.pop("comment", None)
    for comment in facts.get("comments", ()):
        del comment["id"]
    return answer[0], facts


@pytest.mark.thorough
def test_resources_and_completions_are_the_same(both: Pair) -> None:
    def read(server: Driver, uri: str) -> str:
        try:
            result = server.portal.call(server.client.read_resource, uri)
        except Exception as error:  # noqa: BLE001 - whatever the SDK's client raises
            return f"{type(error).__name__} {error}"
        return without_times(result.model_dump_json())

    def listed(server: Driver) -> str:
        return str(server.portal.call(server.client.list_resources).model_dump_json())

    sqlite, postgresql = both
    assert listed(sqlite) == listed(postgresql)
    for uri in URIS:
        assert read(sqlite, uri) == read(postgresql, uri)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "recipe", shortened(["task_execution", "braindump", "opus_review", "ramble"], "task_execution")
)
def test_a_session_gets_the_same_brief(tmp_path: Path, recipe: str) -> None:
    """Instructions, prompts and the brief."""
    with on_both(tmp_path) as (ours, theirs, dsn):
        first, second = (described(root, recipe, dsn) for root in (ours, theirs))

    assert first == second


def described(root: Path, recipe: str, dsn: str) -> dict[str, Any]:
    context = context_for(root, recipe)
    command = server_command(root, "ralph", *on_context(context), "--describe")
    done = subprocess.run(command, capture_output=True, check=True, env={VARIABLE: dsn})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    with on_both(tmp_path) as (_, root, dsn):
        yield root, dsn


def run(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.encode())


@pytest.mark.thorough
def test_special_numbers_are_returned_as_text(theirs: tuple[Path, str]) -> None:
    root, dsn = theirs
    run(
        dsn,
        "ALTER TABLE tasks ADD COLUMN ratio double precision, ADD COLUMN cost numeric; "
        "UPDATE tasks SET ratio = 'NaN', cost = '-Infinity' WHERE id = 1",
    )
    move(root, dsn)
    with connected(root, env={VARIABLE: dsn}) as server:
        task = server.call("get_task", id=1)

    assert (task["ratio"], task["cost"]) == ("nan", "-Infinity")


@pytest.mark.thorough
def test_a_session_fits_its_project_in_whichever_time_zone_it_was_made(
    theirs: tuple[Path, str],
) -> None:
    root, dsn = theirs
    run(
        dsn,
        "ALTER TABLE metadata ALTER COLUMN project_created TYPE timestamptz "
        "USING '2026-02-10 00:00+00'::timestamptz",
    )
    move(root, dsn)
    run(dsn, "UPDATE metadata SET project_title = 'Shop'")
    for created, fails in (("2026-02-10 09:00:00+09", False), ("2026-02-10 09:00:00+08", True)):
        facts = {"root": str(root), "title": "Shop", "created": created}
        with connected(root, env={VARIABLE: dsn}, project=facts) as server:
            assert server.ask("list_tasks")[0] is fails
