"""The kit dela compared with the released dela: start, listing, starting tasks, and output.

The peer is the npm package `@aleyan/dela-linux-amd64` in the folder that RALPHGEN_NODE_MODULES
names. It checks a project only once a minute; ours checks whether a file was changed.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from dela_projects import allow, entry, fixture_repository, project_with
from driving import context_for, on_context
from figures import Topic, topic
from lifelines import until
from processes import HANDSHAKE, STATELESS, Conversation, Server, conversation, memory
from projects import PLAIN_SDK

from ralphgen.environment import INTERPRETER_OPTIONS

pytestmark = pytest.mark.benchmark

ROUNDS_OF_STARTS = 15
ROUNDS_OF_CALLS = 150
ROUNDS_OF_FLOODS = 5
WARM_UP = 10
ROUNDS_OF_A_BATCH = 18
WARM_UP_OF_A_BATCH = 4
BATCHES = 8
FLOOD = 100_000_000  # bytes
MAKE = "nothing-m"
NOTHING = {MAKE: ["make", "nothing"], "nothing-s": ["./nothing.sh"]}
FLOODS = {"lines": "lines.sh", "one line": "one_line.sh"}
MODULES = os.environ.get("RALPHGEN_NODE_MODULES", "")
BUSY = {
    "Makefile": """\
# Do nothing
nothing:
\t@true
""",
    "nothing.sh": "#!/bin/sh\ntrue\n",
    "lines.sh": f"""\
#!/bin/sh
yes '{"a line of ninety-nine characters ".ljust(99, ".")}' | head -c {FLOOD}
""",
    "one_line.sh": f"#!/bin/sh\nhead -c {FLOOD} /dev/zero | tr '\\0' x\n",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """The fixture repository, which has about a hundred tasks of every kind."""
    root = fixture_repository(tmp_path_factory.mktemp("repository"))
    allow(home, entry("Directory", root))
    return root


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """A project whose tasks do nothing, or print a lot."""
    root = project_with(tmp_path_factory.mktemp("busy"), BUSY)
    allow(home, entry("Directory", root))
    return root


def own(root: Path, home: Path, kit: str = "dela", *, era: str = HANDSHAKE) -> Server:
    """A server of a project."""
    script = str(root / ".ralph" / "mcp" / "server.py")
    return _server(f"ralphgen, {kit}, {era}", root, home, (script, kit), era)


def without_front(root: Path, home: Path) -> Server:
    """Return the same server with the SDK answering everything, as after a task's start."""
    words = (str(PLAIN_SDK), str(root / ".ralph" / "mcp"), "dela")
    return _server("the same, SDK alone", root, home, words, HANDSHAKE)


def _server(name: str, root: Path, home: Path, words: tuple[str, ...], era: str) -> Server:
    command = (
        sys.executable,
        *INTERPRETER_OPTIONS,
        *words,
        *on_context(context_for(root, "manual")),
    )
    environment = {"HOME": str(home)}
    return Server(name, command, "list_tasks", {}, era, folder=root, environment=environment)


def peers(root: Path, home: Path, say: Callable[[str], None]) -> list[Server]:
    """Return the released dela on the same project, with the same allowlist, if it is installed."""
    package = Path(MODULES, "@aleyan", "dela-linux-amd64")
    if not MODULES or not package.is_dir():
        say("left out: dela (RALPHGEN_NODE_MODULES names no folder that has it)")
        return []
    version = json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    command = (str(package / "dela"), "mcp", "--cwd", str(root))
    environment = {"HOME": str(home), "SHELL": "/bin/sh"}
    return [Server(f"dela {version}", command, "list_tasks", {}, environment=environment)]


def start(server: Server, table: Topic) -> None:
    """One run of a server, to its first list of tasks and away."""
    name = server.name
    with conversation(server) as talk:
        talk.shake_hands()
        table.add(name, "first answer ms", talk.since())
        talk.ask("tools/list")
        table.add(name, "tools/list ms", talk.since())
        table.add(name, "RSS MB", memory(talk.process.pid)[0])
        table.add(name, "first list_tasks ms", timed(talk.call, "list_tasks", {}))
        table.add(name, "from spawn ms", talk.since())
        resident, proportional = memory(talk.process.pid)
        table.add(name, "RSS then MB", resident)
        table.add(name, "PSS then MB", proportional)
        table.add(name, "CPU ms", talk.end()[1])


def timed(work: Callable[..., object], *given: object, **named: object) -> float:
    """Milliseconds that something takes."""
    begun = time.perf_counter()
    work(*given, **named)
    return (time.perf_counter() - begun) * 1000


def test_start_up_to_the_first_list_of_tasks(repository: Path, home: Path) -> None:
    with topic("dela: from spawn to the first list of tasks, which is the fixture's") as table:
        servers = [
            own(repository, home),
            own(repository, home, era=STATELESS),
            own(repository, home, "ralph"),
            without_front(repository, home),
            *peers(repository, home, table.note),
        ]
        for server in servers:
            start(server, Topic("warm-up"))
        for _ in range(ROUNDS_OF_STARTS):
            for server in servers:
                start(server, table)


def test_warm_lists_of_tasks(repository: Path, home: Path) -> None:
    """Compare the size per task too, since the peer finds other tasks."""
    with topic("dela: warm calls on the fixture") as table, ExitStack() as stack:
        found = [own(repository, home), without_front(repository, home)]
        servers = [*found, *peers(repository, home, table.note)]
        talks = [stack.enter_context(conversation(server)) for server in servers]
        for talk in talks:
            talk.shake_hands()
            count = len(call_json(talk, "list_tasks")["tasks"])
            table.add(talk.server.name, "tasks", count)
        for turn in range(WARM_UP + ROUNDS_OF_CALLS):
            for talk in talks:
                every = timed(talk.call, "list_tasks", {})
                some = timed(talk.call, "list_tasks", {"runner": "make"})
                if turn >= WARM_UP:
                    table.add(talk.server.name, "list_tasks ms", every)
                    table.add(talk.server.name, "those of make ms", some)
                    table.add(talk.server.name, "status ms", timed(talk.call, "status", {}))


def call_json(talk: Conversation, tool: str, **arguments: Any) -> dict[str, Any]:
    """The JSON of an answer."""
    (block,) = talk.call(tool, arguments)["content"]
    answer: dict[str, Any] = json.loads(block["text"])
    return answer


def test_starts_of_tasks_that_do_nothing(busy: Path, home: Path) -> None:
    """Each is also run without a server, in turns; the difference is the cost of the server.

    The servers are restarted every few rounds: the peer starts nothing more after fifty tasks.
    """
    wrong: Counter[str] = Counter()
    with topic("dela: a task that does nothing, to its end") as table:
        servers = [own(busy, home), *peers(busy, home, table.note)]
        for _ in range(BATCHES):
            with ExitStack() as stack:
                talks = [stack.enter_context(conversation(server)) for server in servers]
                for talk in talks:
                    talk.shake_hands()
                    first = timed(call_json, talk, "task_start", unique_name=MAKE)
                    table.add(talk.server.name, "the server's first ms", first)
                start_in_turns(talks, busy, table)
                for talk in talks:
                    states = [started(talk, name) for name in NOTHING]
                    wrong[talk.server.name] += states.count("running")
        for name, count in wrong.items():
            table.note(
                f"{name}: {count} of {BATCHES * len(NOTHING)} were called running at the end"
            )


def start_in_turns(talks: Sequence[Conversation], root: Path, table: Topic) -> None:
    """Run tasks that do nothing: alone, and by each of the servers."""
    for turn in range(WARM_UP_OF_A_BATCH + ROUNDS_OF_A_BATCH):
        for name, command in NOTHING.items():
            alone = timed(run, command, root)
            taken = {}
            for talk in talks:
                row = talk.server.name
                taken[row] = timed(started, talk, name)
            if turn < WARM_UP_OF_A_BATCH:
                continue
            table.add("without a server", f"{command[0]} ms", alone)
            for row, each in taken.items():
                table.add(row, f"{command[0]} ms", each)
                table.add(row, f"{command[0]}, beyond that ms", each - alone)


def run(command: Sequence[str], root: Path) -> None:
    """Run a command to its end, and read its output."""
    subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def started(talk: Conversation, name: str) -> str:
    """The state of a task that was started, and that must not fail."""
    answer = call_json(talk, "task_start", unique_name=name)
    assert 0 == answer.get("exit_code", 0), answer
    state: str = answer["state"]
    return state


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_floods_of_output(busy: Path, home: Path) -> None:
    """The most memory that a server has while a task prints 100 MB, more than it had before."""
    with topic("dela: a task that prints 100 MB") as table:
        servers = [own(busy, home), *peers(busy, home, table.note)]
        for _ in range(ROUNDS_OF_FLOODS):
            for name, script in FLOODS.items():
                alone = timed(run_away, busy / script)
                table.add("without a server, to a pipe", f"{name}: ms", alone)
                for server in servers:
                    flood(server, script, name, table)


def run_away(script: Path) -> None:
    """Run a script, and read its output as a server would, without keeping it."""
    with subprocess.Popen([script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1 << 16):
            pass


def flood(server: Server, script: str, name: str, table: Topic) -> None:
    """One task of a new server, which has run another one before."""
    with conversation(server) as talk:
        talk.shake_hands()
        started(talk, MAKE)
        before = memory_of(talk, "VmRSS")
        Path(f"/proc/{talk.process.pid}/clear_refs").write_text("5", encoding="utf-8")
        begun = time.perf_counter()
        given = {"unique_name": script.removesuffix(".sh"), "wait_for_exit_seconds": 0}
        pid = call_json(talk, "task_start", **given)["pid"]
        assert until(lambda: ended(talk)) or until(lambda: ended(talk))
        table.add(server.name, f"{name}: ms", (time.perf_counter() - begun) * 1000)
        most, after = memory_of(talk, "VmHWM"), memory_of(talk, "VmRSS")
        table.add(server.name, f"{name}: more MB at most", most - before)
        table.add(server.name, f"{name}: more MB afterwards", after - before)
        answer = timed(talk.call, "task_output", {"pid": pid})
        table.add(server.name, f"{name}: task_output ms", answer)


def ended(talk: Conversation) -> bool:
    """Return whether no task of a server is running."""
    return not call_json(talk, "status")["running"]


def memory_of(talk: Conversation, fact: str) -> float:
    """Return a fact about the memory of a server process, in MB."""
    status = Path(f"/proc/{talk.process.pid}/status").read_text(encoding="utf-8")
    facts = dict(line.split(":", 1) for line in status.splitlines())
    return int(facts[fact].split()[0]) / 1024
