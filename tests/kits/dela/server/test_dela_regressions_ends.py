"""No task outlives its server, however that ends.

That tasks did (R15) was a fault of other servers; the number is that of the list of faults that
this kit was built against.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest
from asking_dela import FILES, asking, living, start_of
from dela_projects import allow, entry, project_with
from lifelines import Lifeline, until
from wire import Wire

AT_ONCE = 2.0  # seconds; it is what tasks have to end by themselves, where they would
AT_LAST = 6.0  # seconds, where they would not: those two, and what killing takes


def insist(server: Wire) -> None:
    """As Claude Code ends a server: it gives the first signal 100 ms."""
    server.kill(SIGINT)
    time.sleep(0.1)
    server.process.send_signal(SIGTERM)


def lose_patience(server: Wire) -> None:
    """And at last it kills it, in the middle of its end."""
    insist(server)
    time.sleep(0.1)
    server.process.send_signal(SIGKILL)


def vanish(server: Wire) -> None:
    """As a client that is killed: nobody writes any more, and nobody reads."""
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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("ends"), FILES)


@pytest.fixture(scope="module")
def home(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    allow(home, entry("Directory", root))
    return home


class TestEnds:
    """R15: whatever ends the server, it ends all of its tasks, and soon."""

    @WAY
    def test_r15_a_task_ends_with_its_server_at_once(
        self,
        root: Path,
        home: Path,
        lifeline: Lifeline,
        end: Callable[[Wire], None],
        wait: int,
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
        """A deaf task, and the deaf children of another; by every way in which a server ends."""
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

    @pytest.mark.parametrize("end", KILLED.values(), ids=KILLED)
    def test_r15_even_a_server_that_is_killed_leaves_nothing(
        self, root: Path, home: Path, lifeline: Lifeline, end: Callable[[Wire], None]
    ) -> None:
        _, took, _ = self.ended(root, home, lifeline, ("polite", 300), end)

        assert took < AT_ONCE

    def ended(
        self,
        root: Path,
        home: Path,
        lifeline: Lifeline,
        task: tuple[str, int],
        end: Callable[[Wire], None],
    ) -> tuple[int, float, str]:
        """How a server ends with a running task, of which nothing may be left afterwards.

        Its code, the seconds that it took until both were gone, and what it said.
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
