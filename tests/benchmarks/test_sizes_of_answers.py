"""The cost of a session in the model's window: bytes and, at 3.2 bytes each, tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import emitted_policy, query
from figures import Topic, topic
from making_sessions import describe_session
from processes import conversation
from projects import ours, project

pytestmark = pytest.mark.benchmark

BYTES_OF_A_TOKEN = 3.2


def weigh(table: Topic, row: str, value: Any) -> None:
    """Note the size of a value as compact JSON."""
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    table.add(row, "bytes", size)
    table.add(row, "tokens, about", size / BYTES_OF_A_TOKEN)


def test_sizes_of_the_list_by_recipe(tmp_path: Path) -> None:
    root = project(tmp_path)
    with topic("tools/list by recipe") as table:
        recipes = emitted_policy(root)["recipes"]
        for recipe in sorted(recipes, key=lambda name: name != "manual"):
            with conversation(ours(root, recipe=recipe)) as talk:
                talk.shake_hands()
                tools = talk.ask("tools/list")["tools"]
                table.add(recipe, "tools", len(tools))
                weigh(table, recipe, tools)


def test_sizes_of_pages(tmp_path: Path) -> None:
    root = project(tmp_path, tasks=10_000)
    with topic("Answers of 10,000 tasks") as table, conversation(ours(root)) as talk:
        talk.shake_hands()
        for tool, arguments in (
            ("list_tasks", {}),
            ("list_tasks", {"limit": 10}),
            ("list_tasks", {"limit": 200}),
            ("list_tasks", {"filter_feature": "f7"}),
            ("get_task", {"id": 5_001}),
            ("get_project_progress", {}),
            ("list_features", {}),
            ("get_feature", {"name": "f7"}),
        ):
            said = " ".join(f"{key}={value}" for key, value in arguments.items())
            (block,) = talk.call(tool, arguments)["content"]
            table.add(f"{tool} {said}".strip(), "characters", len(block["text"]))
            weigh(table, f"{tool} {said}".strip(), json.loads(block["text"]))


LEARNINGS = (100, 80, 65, 55, 45, 35, 30, 25, 20, 15, *[3] * 10)  # of each feature: 500 in all


def learnings(feature: int, count: int) -> str:
    """Learnings of the usual length, as the column holds them."""
    return json.dumps(
        [
            {
                "text": f"Number {at} of feature {feature}: the second call answers from the "
                "cache, so a test that counts calls has to empty it before it begins.",
                "reason": "Two sessions lost an hour to a test that passed alone and failed in CI.",
                "source": "agent",
            }
            for at in range(count)
        ]
    )


def test_sizes_of_briefs_with_features_inline_and_as_resources(tmp_path: Path) -> None:
    root = project(tmp_path)
    for feature, count in enumerate(LEARNINGS, 1):
        sql = "UPDATE features SET learnings = ?, description = ?, architecture = ?, boundaries = ?"
        words = ("What it is for. " * 20, "How it is built. " * 60, "What is left out. " * 20)
        query(root, f"{sql} WHERE name = ?", learnings(feature, count), *words, f"f{feature}")
    assert 500 == sum(LEARNINGS)
    with topic("Brief of a task, by feature") as table:
        for feature in range(1, 11):
            (task,) = query(root, "SELECT MIN(id) FROM tasks WHERE feature = ?", f"f{feature}")[0]
            row = f"{LEARNINGS[feature - 1]} learnings"
            for mode in ("inline", "resource"):
                facts = {"task_id": task, "brief": {"features": mode}}
                brief = describe_session(root, "task_execution", **facts)["brief"]
                size = len(f"{brief['system']}{brief['task']}".encode())
                table.add(row, f"{mode}, bytes", size)
                table.add(row, f"{mode}, tokens, about", size / BYTES_OF_A_TOKEN)
            with conversation(ours(root)) as talk:
                talk.shake_hands()
                read = talk.ask("resources/read", {"uri": f"ralph://features/f{feature}"})
                table.add(row, "resource itself, bytes", len(read["contents"][0]["text"].encode()))
