"""What a session costs in the model's window: bytes and, at 3.2 bytes each, tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import emitted_policy
from figures import Topic, topic
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
