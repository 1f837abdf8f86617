"""A start or a stop that is cancelled leaves no task behind that nobody knows of.

That a cancelled start left its task running (R14) was a fault of other servers; the number is that
of the list of faults that this kit was built against.
"""

import json
from pathlib import Path

import pytest
from asking_dela import FILES, VERSIONS, asking, living, start_of
from dela_projects import BOTH_VERSIONS, allow, entry, project_with, serving
from driving import Era
from lifelines import Lifeline, until

NEWEST_FIRST = (VERSIONS[1], pytest.param(VERSIONS[0], marks=pytest.mark.soak))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("ends"), FILES)


@pytest.fixture(scope="module")
def home(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    allow(home, entry("Directory", root))
    return home


class TestCancelling:
    """A start that is taken back is a task that is stopped; a stop cannot be taken back."""

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

    def test_r14_one_that_is_deaf_ends_with_the_server_at_the_latest(
        self, root: Path, home: Path, lifeline: Lifeline
    ) -> None:
        """Who is being stopped already is not forgotten at the end."""
        with asking(root, home) as client:
            client.send("start", "task_start", **start_of("deaf", lifeline))
            assert lifeline.was_held()
            (pid,) = [told["pid"] for told in client.call("status")["running"]]
            client.cancel("start")
            assert until(lambda: "no" in client.call("task_output", pid=pid)["lines"])
            client.server.leave()

            assert 0 == client.server.end()
            assert lifeline.was_let_go()

    @pytest.mark.parametrize("era", BOTH_VERSIONS)
    def test_r14_so_does_a_client_of_the_sdk_that_gives_up(
        self, root: Path, home: Path, lifeline: Lifeline, era: Era
    ) -> None:
        start = start_of("polite", lifeline)
        with serving(root, home, era=era) as dela:
            waiting = dela.portal.start_task_soon(dela.client.call_tool, "task_start", start)
            assert lifeline.was_held()
            waiting.cancel()

            assert lifeline.was_let_go()
            assert until(lambda: not dela.call("status")["running"])

    @pytest.mark.parametrize("version", NEWEST_FIRST)
    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no table of processes")
    def test_r14_whenever_a_start_is_cancelled_no_task_is_left(
        self, root: Path, home: Path, lifeline: Lifeline, version: str
    ) -> None:
        """Before it has begun, while the process is being made, and afterwards."""
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

    def test_a_background_task_outlives_the_call_that_started_it(
        self, root: Path, home: Path
    ) -> None:
        """Taking back what is answered already means nothing."""
        with asking(root, home) as client:
            client.send("start", "task_start", unique_name="hold", wait_for_exit_seconds=0)
            pid = json.loads(client.answer("start")["result"]["content"][0]["text"])["pid"]
            client.cancel("start")
            for _ in range(10):
                found = client.call("task_status", pid=pid)["jobs"][0]

            assert "running" == found["state"]

    @pytest.mark.parametrize("wait", [0, 300], ids=["background", "waiting"])
    def test_a_client_that_no_longer_reads_leaves_no_task(
        self, root: Path, home: Path, lifeline: Lifeline, wait: int
    ) -> None:
        """Although it still writes: the first answer that nobody takes ends the server."""
        with asking(root, home) as client:
            client.send("start", "task_start", **start_of("polite", lifeline, wait))
            if not wait:
                client.answer("start")
            assert lifeline.was_held()
            assert client.server.process.stdout is not None
            client.server.process.stdout.close()
            client.send("status", "status")

            assert lifeline.was_let_go()
            assert 0 == client.server.end()
            assert "Traceback" not in client.server.errors()
