"""No task outlives its server or a cancelled start, and starts do not wait for each other.

R14 and R15 were faults of other servers; the numbers refer to the list of faults that this kit was
built against.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest
from asking_dela import FILES, VERSIONS, asking, living, start_of
from dela_projects import allow, entry, project_with
from lifelines import Lifeline, until
from wire import Wire

AT_ONCE = 2.0  # seconds; the grace period of tasks
AT_LAST = 6.0  # seconds; the grace period and the time for killing


def insist(server: Wire) -> None:
    """End a server like Claude Code: SIGINT, and SIGTERM after 100 ms."""
    server.kill(SIGINT)
    time.sleep(0.1)
    server.process.send_signal(SIGTERM)


def lose_patience(server: Wire) -> None:
    """Kill the server while it ends."""
    insist(server)
    time.sleep(0.1)
    server.process.send_signal(SIGKILL)


def vanish(server: Wire) -> None:
    """Disappear like a killed client, which neither writes nor reads."""
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.leave()


WAYS: Mapping[str, Callable[[Wire], None]] = {
    "closed input": lambda server: server.leave(),
    "SIGTERM": lambda server: server.kill(SIGTERM),
    "SIGINT": lambda server: server.kill(SIGINT),
    "both": insist,
    "no client": vanish,
}
KILLED: Mapping[str, Callable[[Wire], None]] = {
    "SIGKILL": lambda server: server.kill(SIGKILL),
    "all": lose_patience,
}
WAY = pytest.mark.parametrize(
    ("end", "wait"),
    [
        pytest.param(
            end,
            wait,
            id=f"{name}-{wait}",
            marks=() if not wait or name == "closed input" else pytest.mark.soak,
        )
        for wait in (0, 300)
        for name, end in WAYS.items()
    ],
)
AMID_STARTS = pytest.mark.parametrize(
    "end",
    [
        pytest.param(
            end, id=name, marks=() if name in {"closed input", "both"} else pytest.mark.soak
        )
        for name, end in WAYS.items()
    ],
)

NEWEST_FIRST = (VERSIONS[1], pytest.param(VERSIONS[0], marks=pytest.mark.soak))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("ends"), FILES)


@pytest.fixture(scope="module")
def home(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    allow(home, entry("Directory", root))
    return home


class TestEnds:
    """R15: any end of the server ends all of its tasks quickly."""

    @WAY
    def test_r15_a_task_ends_with_its_server_at_once(
        self, root: Path, home: Path, lifeline: Lifeline, end: Callable[[Wire], None], wait: int
    ) -> None:
        code, took, said = self.ended(root, home, lifeline, ("polite", wait), end)

        assert (0, False) == (code, "Traceback" in said)
        assert took < AT_ONCE

    @pytest.mark.parametrize("task", ["deaf", "parent"])
    @pytest.mark.parametrize(
        "ways",
        [
            {way: {**WAYS, **KILLED}[way] for way in ("closed input", "both", "SIGKILL")},
            pytest.param({**WAYS, **KILLED}, marks=pytest.mark.soak),
        ],
        ids=["some", "all"],
    )
    def test_r15_so_does_one_that_is_deaf_and_all_that_it_has_started(
        self,
        root: Path,
        home: Path,
        tmp_path: Path,
        task: str,
        ways: Mapping[str, Callable[[Wire], None]],
    ) -> None:
        """A task, or children of a task, that ignore signals, for every end of a server."""
        lifelines = {way: Lifeline(tmp_path / way) for way in ways}
        with ExitStack() as stack:
            clients = {way: stack.enter_context(asking(root, home)) for way in ways}
            for way, client in clients.items():
                client.send("start", "task_start", **start_of(task, lifelines[way]))
            assert all(lifeline.was_held() for lifeline in lifelines.values())
            assert all(client.knows_of_a_task() for client in clients.values())
            before = time.monotonic()
            for way, end in ways.items():
                end(clients[way].server)
            codes = {way: client.server.end() for way, client in clients.items()}
            left = [way for way, lifeline in lifelines.items() if not lifeline.was_let_go()]
            took = time.monotonic() - before
        for lifeline in lifelines.values():
            lifeline.close()

        assert ({way: -SIGKILL if way in KILLED else 0 for way in ways}, []) == (codes, left)
        assert took < AT_LAST

    def ended(
        self,
        root: Path,
        home: Path,
        lifeline: Lifeline,
        task: tuple[str, int],
        end: Callable[[Wire], None],
    ) -> tuple[int, float, str]:
        """Return how a server ends with a running task; assert that nothing is left.

        These are its code, the seconds until both were gone, and its output.
        """
        name, wait = task
        with asking(root, home) as client:
            client.send("start", "task_start", **start_of(name, lifeline, wait))
            if not wait:
                client.answer("start")
            assert lifeline.was_held()
            assert client.knows_of_a_task()
            before = time.monotonic()
            end(client.server)
            code = client.server.end()
            assert lifeline.was_let_go()
            took = time.monotonic() - before
            return code, took, client.server.errors()

    @AMID_STARTS
    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no table of processes")
    def test_r15_an_end_in_the_middle_of_many_starts_leaves_none(
        self, root: Path, home: Path, lifeline: Lifeline, end: Callable[[Wire], None]
    ) -> None:
        with asking(root, home) as client:
            for number in range(30):
                client.send(f"{number}", "task_start", **start_of("polite", lifeline))
            assert lifeline.was_held()
            assert living(lifeline)
            end(client.server)

            assert 0 == client.server.end()
            assert until(lambda: not living(lifeline))
            assert lifeline.was_let_go()


class TestCancelling:
    """A cancelled start stops its task; a stop cannot be cancelled."""

    @pytest.mark.parametrize("version", VERSIONS)
    def test_r14_a_cancelled_start_stops_its_task(
        self, root: Path, home: Path, lifeline: Lifeline, version: str
    ) -> None:
        with asking(root, home, version) as client:
            client.send("start", "task_start", **start_of("polite", lifeline))
            assert lifeline.was_held()
            client.cancel("start")

            assert lifeline.was_let_go()
            assert until(lambda: not client.call("status")["running"])
            (found,) = client.call("task_status", unique_name="polite")["jobs"]
            assert ("failed", 15) == (found["state"], found["signal"])
            client.server.leave()
            assert 0 == client.server.end()

    @pytest.mark.parametrize("version", NEWEST_FIRST)
    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no table of processes")
    def test_r14_whenever_a_start_is_cancelled_no_task_is_left(
        self, root: Path, home: Path, lifeline: Lifeline, version: str
    ) -> None:
        """Before the start, during the creation of the process, and afterwards."""
        with asking(root, home, version) as client:
            for number in range(40):
                identity = f"start {number}"
                client.send(identity, "task_start", **start_of("polite", lifeline))
                if number % 4:
                    client.cancel(identity)
            for number in range(0, 40, 4):
                client.cancel(f"start {number}")

            assert until(lambda: not client.call("status")["running"])
            assert until(lambda: not living(lifeline))
            assert "exited" != client.call("task_start", unique_name="hold")["state"]

    @pytest.mark.parametrize("version", NEWEST_FIRST)
    def test_a_stop_that_is_cancelled_stops_all_the_same(
        self, root: Path, home: Path, lifeline: Lifeline, version: str
    ) -> None:
        with asking(root, home, version) as client:
            pid = client.call("task_start", **start_of("deaf", lifeline, 0))["pid"]
            assert lifeline.was_held()
            client.send("stop", "task_stop", pid=pid, grace_period=1)
            assert until(lambda: "no" in client.call("task_output", pid=pid)["lines"])
            client.cancel("stop")
            assert "running" == client.call("task_status", pid=pid)["jobs"][0]["state"]

            assert lifeline.was_let_go()
            assert until(lambda: not client.call("status")["running"])
            (found,) = client.call("task_status", pid=pid)["jobs"]
            assert ("failed", 9) == (found["state"], found["signal"])
