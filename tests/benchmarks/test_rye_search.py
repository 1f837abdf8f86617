"""Searches among ten thousand items, compared with a server that reads all of them at each call."""

import json
import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, on_context
from figures import Topic, topic
from processes import HANDSHAKE, Conversation, Server, conversation, memory
from projects import PLAIN_SDK
from rye_projects import directive, knowledge, put, python_tool, rye_project

from ralphgen.environment import INTERPRETER_OPTIONS

pytestmark = pytest.mark.benchmark

ITEMS = 10_000
FOLDERS = 30  # of each type
WORDS = 100  # of an item
VOCABULARY = 20_000
ROUNDS = 20
STARTS = 3
SCANNER = Path(__file__).parent / "peers" / "item_scanner.py"
RARE, COMMON = "quokka", "platypus"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of so many items; every hundredth has one word, every second another."""
    root = rye_project(tmp_path_factory.mktemp("items"))
    chance = random.Random(1)  # noqa: S311 - the same items each time
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(VOCABULARY)]
    weights = [1 / (place + 5) for place in range(VOCABULARY)]
    for number in range(ITEMS):
        told = chance.choices(words, weights, k=WORDS)
        told += [RARE] * (not number % 100) + [COMMON] * (not number % 2)
        lines = [" ".join(told[at : at + 12]) for at in range(0, len(told), 12)]
        put(*item(root, number, "\n".join(lines)))
    return root


def item(root: Path, number: int, text: str) -> tuple[Path, str]:
    """The file and the text of an item."""
    item_id = f"area{number // 3 % FOLDERS}/item-{number}"
    if number % 3 == 0:
        told = directive(item_id, body=text)
        return root / f".ai/directives/{item_id}.md", told
    if number % 3 == 1:
        code = f'def execute(params, project_path):\n    """{text}"""\n    return params\n'
        return root / f".ai/tools/{item_id}.py", python_tool(item_id, code)
    return root / f".ai/knowledge/{item_id}.md", knowledge(item_id, text)


def servers(root: Path, home: Path) -> list[Server]:
    """Ours, ours with the SDK loaded from the start, and the scanner."""
    context = on_context(context_for(root, "manual"))
    own = str(root / ".ralph" / "mcp" / "server.py")
    environment = {"HOME": str(home), "USER_SPACE": str(home / "user")}
    commands = {
        f"ralphgen, {HANDSHAKE}": (*INTERPRETER_OPTIONS, own, "rye", *context),
        "the same, SDK alone": (
            *INTERPRETER_OPTIONS,
            str(PLAIN_SDK),
            str(Path(own).parent),
            "rye",
            *context,
        ),
        "a scanner, SDK": (str(SCANNER),),
    }
    return [
        Server(name, (sys.executable, *words), folder=root, environment=environment)
        for name, words in commands.items()
    ]


def search(talk: Conversation, query: str, **more: Any) -> tuple[float, Mapping[str, Any]]:
    """Milliseconds of a search there and back, and its answer."""
    root = str(talk.server.folder)
    begun = time.perf_counter()
    result = talk.call("search", {"query": query, "item_type": "all", "project_path": root, **more})
    taken = (time.perf_counter() - begun) * 1000
    answer: dict[str, Any] = json.loads(result["content"][0]["text"])
    return taken, answer


def first(server: Server, table: Topic) -> None:
    """A new server's first search."""
    with conversation(server) as talk:
        talk.shake_hands()
        talk.ask("tools/list")
        table.add(server.name, "RSS before MB", memory(talk.process.pid)[0])
        taken, answer = search(talk, RARE)
        assert ITEMS // 100 == answer["total"], answer
        table.add(server.name, "first search ms", taken)
        table.add(server.name, "RSS MB", memory(talk.process.pid)[0])
        table.add(server.name, "CPU ms", talk.end()[1])


def test_first_searches(root: Path, tmp_path: Path) -> None:
    with topic(f"rye: the first search among {ITEMS:,} items") as table:
        for _ in range(STARTS):
            for server in servers(root, tmp_path):
                first(server, table)


def test_next_searches(root: Path, tmp_path: Path) -> None:
    with topic(f"rye: later searches among {ITEMS:,} items") as table, ExitStack() as stack:
        talks = [stack.enter_context(conversation(server)) for server in servers(root, tmp_path)]
        for talk in talks:
            talk.shake_hands()
            search(talk, RARE)
        for _ in range(ROUNDS):
            for talk in talks:
                row = talk.server.name
                table.add(row, "a rare word ms", search(talk, RARE)[0])
                table.add(row, "two words ms", search(talk, f"{RARE} {COMMON}")[0])
                table.add(row, "half of all ms", search(talk, COMMON)[0])
                table.add(row, "none ms", search(talk, "xyzzyx")[0])
        for talk in talks[:2]:
            row = talk.server.name
            for _ in range(ROUNDS // 4):
                table.add(row, "all ms", search(talk, "")[0])
                table.add(row, "a wildcard within ms", search(talk, "qu*ka")[0])
                table.add(row, "mistyped ms", search(talk, "quoka", fuzzy={"enabled": True})[0])
                filters = {"version": ">=1"}
                table.add(row, "filters on half ms", search(talk, COMMON, filters=filters)[0])
        for talk in talks:
            table.add(talk.server.name, "RSS MB", memory(talk.process.pid)[0])


def test_searches_after_a_change(root: Path, tmp_path: Path) -> None:
    """Before each search one file is rewritten, and the search must find its new text."""
    path, text = item(root, 5, "words")
    with topic(f"rye: a search after one of {ITEMS:,} items was changed") as table:
        for server in servers(root, tmp_path):
            with conversation(server) as talk:
                talk.shake_hands()
                search(talk, RARE)
                for number in range(ROUNDS):
                    put(path, f"{text}\nwombat{number}x")
                    taken, answer = search(talk, f"wombat{number}x")
                    assert 1 == answer["total"]
                    table.add(server.name, "search ms", taken)
