"""From spawn to the first answers, one at a time and many at once, compared with other servers."""

import ast
import selectors
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest
from figures import Topic, topic
from installed import OF_THE_FIELD, SAME_TOOLS, there
from processes import HANDSHAKE, STATELESS, Conversation, Server, conversation, memory
from projects import ours, plain_sdk, project

from ralphgen.environment import INTERPRETER_OPTIONS

pytestmark = pytest.mark.benchmark

INTERPRETER = Path(__file__).parent / "peers" / "interpreter.py"
ROUNDS = 15
ROUNDS_AT_ONCE = 7


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("start"))


def own(root: Path) -> list[Server]:
    return [make(root, era=era) for make in (ours, plain_sdk) for era in (HANDSHAKE, STATELESS)]


def start(server: Server, table: Topic) -> None:
    """One run of a server."""
    name = server.name
    with conversation(server) as talk:
        talk.shake_hands()
        table.add(name, "first answer ms", talk.since())
        talk.ask("tools/list")
        table.add(name, "tools/list ms", talk.since())
        resident, proportional = memory(talk.process.pid)
        begun = time.perf_counter()
        talk.call(server.call, server.arguments)
        table.add(name, "first call ms", (time.perf_counter() - begun) * 1000)
        table.add(name, "RSS MB", resident)
        table.add(name, "PSS MB", proportional)
        exit_time, cpu = talk.end()
        table.add(name, "exit ms", exit_time)
        table.add(name, "CPU ms", cpu)


def running(servers: Sequence[Server], table: Topic) -> list[Server]:
    """Those servers of others that answer as they should."""
    found: list[Server] = []
    for server in servers:
        try:
            start(server, Topic("warm-up"))
        except (AssertionError, OSError) as error:
            table.note(f"left out: {server.name} ({str(error)[:200]})")
        else:
            found.append(server)
    return found


def test_start_up_compared_with_peers(root: Path) -> None:
    with topic("Start-up: from spawn; RSS and PSS after tools/list; CPU of the whole run") as table:
        servers = [*own(root), *there(SAME_TOOLS, root, table.note)]
        for server in servers:
            start(server, Topic("warm-up"))
        servers += running(there(OF_THE_FIELD, root, table.note), table)
        for _ in range(ROUNDS):
            for server in servers:
                start(server, table)


def test_start_compared_with_an_interpreter(root: Path) -> None:
    """From spawn to the line, and to `tools/list`: the ratio of the minima is what counts."""
    source = ast.parse(INTERPRETER.read_text(encoding="utf-8"))
    command = (
        sys.executable,
        *INTERPRETER_OPTIONS,
        "-c",
        ast.unparse(ast.Module(source.body[1:], [])),
    )
    server = ours(root)
    taken: dict[str, list[float]] = {"peer": [], "ours": []}
    used: dict[str, list[float]] = {"peer": [], "ours": []}
    resident: list[float] = []
    for _ in range(3):  # the bytecode is kept by then
        start(server, Topic("warm-up"))
    with topic("Start-up beside an interpreter that answers one line") as table:
        for _ in range(ROUNDS):
            with conversation(Server("peer", command)) as talk:
                talk.send(b"{}\n")
                assert talk.process.stdout is not None
                talk.process.stdout.readline()
                taken["peer"].append(talk.since())
                used["peer"].append(talk.end()[1])
            with conversation(server) as talk:
                talk.shake_hands()
                talk.ask("tools/list")
                taken["ours"].append(talk.since())
                resident.append(memory(talk.process.pid)[0])
                used["ours"].append(talk.end()[1])
        table.add("an interpreter", "answer ms", *taken["peer"])
        table.add(server.name, "answer ms", *taken["ours"])
        table.add("an interpreter", "CPU ms", *used["peer"])
        table.add(server.name, "CPU ms", *used["ours"])
        table.add(server.name, "RSS MB", *resident)
        for measure, found in (("wall", taken), ("CPU", used)):
            ratio = min(found["ours"]) / min(found["peer"])
            table.note(f"ratio of the minima, {measure}: {ratio:.2f} (goal: 1.7)")


def all_at_once(server: Server, number: int) -> list[float]:
    """For each of so many servers, milliseconds from the first spawn to its `tools/list`."""
    begun = time.perf_counter()
    taken: list[float] = []
    talks: list[Conversation] = []
    with selectors.DefaultSelector() as ready:
        for _ in range(number):
            talk = Conversation(server)
            talk.send(talk.opening())
            assert talk.process.stdout is not None
            ready.register(talk.process.stdout, selectors.EVENT_READ, (talk, True))
            talks.append(talk)
        while ready.get_map():
            for key, _ in ready.select(60):
                talk, first = key.data
                talk.answer()
                if first:
                    talk.send(talk.opened() + talk.frame("tools/list"))
                    ready.modify(key.fileobj, key.events, (talk, False))
                else:
                    taken.append((time.perf_counter() - begun) * 1000)
                    ready.unregister(key.fileobj)
    for talk in talks:
        talk.end()
        assert talk.process.stdout is not None
        talk.process.stdout.close()
    return taken


@pytest.mark.parametrize(("number", "rounds"), [(8, ROUNDS_AT_ONCE), (50, 3)])
def test_many_at_once(root: Path, number: int, rounds: int) -> None:
    with topic(f"{number} servers at once: from the first spawn to tools/list") as table:
        others = SAME_TOOLS[:2] if number > 8 else SAME_TOOLS  # fifty of the rest take minutes
        servers = [ours(root), plain_sdk(root), *there(others, root, table.note)]
        for _ in range(rounds):
            for server in servers:
                taken = all_at_once(server, number)
                table.add(server.name, "the median one ms", median(taken))
                table.add(server.name, "the last one ms", max(taken))


def test_a_completion_right_after_the_tools(root: Path) -> None:
    params = {
        "ref": {"type": "ref/resource", "uri": "ralph://features/{name}"},
        "argument": {"name": "name", "value": "f1"},
    }
    with topic("A completion, right after tools/list") as table:
        for _ in range(ROUNDS):
            for server in (ours(root), plain_sdk(root)):
                with conversation(server) as talk:
                    talk.shake_hands()
                    talk.ask("tools/list")
                    begun = time.perf_counter()
                    talk.ask("completion/complete", params)
                    took = (time.perf_counter() - begun) * 1000
                    table.add(server.name, "the request ms", took)
                    table.add(server.name, "from spawn ms", talk.since())
                    talk.end()
