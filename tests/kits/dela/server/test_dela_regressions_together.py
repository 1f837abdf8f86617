"""Tasks that are started at once do not wait for each other, and only so many run."""

import json
from pathlib import Path
from typing import Any

import pytest
from asking_dela import FILES, living, start_of
from dela_projects import BOTH_VERSIONS, begun, job, project_with, serving
from driving import Driver, Era
from lifelines import PATIENCE, Lifeline


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("ends"), FILES)


class TestTogether:
    """Many calls at once: none waits for another, and no more are started than may be."""

    @pytest.mark.parametrize("era", BOTH_VERSIONS)
    def test_starts_do_not_wait_for_each_other(self, tmp_path: Path, era: Era) -> None:
        """Each of twenty tasks ends only when all of them are there."""
        meeting = """\
#!/bin/sh
touch "$1/$$"
until [ "$(ls "$1" | wc -l)" -ge 20 ]; do sleep 0.05; done
"""
        root = project_with(tmp_path / "project", {"meet.sh": meeting})
        room = tmp_path / "room"
        room.mkdir()
        start = {"unique_name": "meet", "args": [str(room)], "wait_for_exit_seconds": 60}
        with serving(root, tmp_path / "home", era=era) as dela:
            answers = together(dela, [start] * 20)

        assert [{"state": "exited", "exit_code": 0, "initial_output": ""}] * 20 == answers

    def test_fifty_of_sixty_are_started_and_ten_are_refused(
        self, root: Path, tmp_path: Path, lifeline: Lifeline
    ) -> None:
        with serving(root, tmp_path / "home") as dela:
            answers = together(dela, [start_of("polite", lifeline, 1)] * 60)
            pids = {answer["pid"] for answer in answers if isinstance(answer, dict)}
            running = {told["pid"] for told in dela.call("status")["running"]}
            refusals = [answer for answer in answers if not isinstance(answer, dict)]
            assert lifeline.was_held()
            processes = living(lifeline) if Path("/proc/self").exists() else 50

        assert (50, pids) == (len(pids), running)
        assert [(-32603, "Maximum number of concurrent jobs (50) reached")] * 10 == refusals
        assert 50 == processes
        assert lifeline.was_let_go()

    def test_a_place_is_free_again_when_its_task_has_ended(self, tmp_path: Path) -> None:
        """Sixty times, at once and one after the other: no place is lost."""
        root = project_with(tmp_path / "project", FILES, settings="max_jobs = 3")
        with serving(root, tmp_path / "home") as dela:
            for _ in range(4):
                together(dela, [{"unique_name": "hold", "wait_for_exit_seconds": 0}] * 15)
                for told in dela.call("status")["running"]:
                    dela.call("task_stop", pid=told["pid"])
            pids = [begun(dela, "hold", "started") for _ in range(3)]

            assert ["running"] * 3 == [job(dela, pid)["state"] for pid in pids]


def together(dela: Driver, starts: list[dict[str, Any]]) -> list[Any]:
    """The answers of starts that are sent at once; code and message for one that is refused."""
    calls = [
        dela.portal.start_task_soon(dela.client.call_tool, "task_start", start) for start in starts
    ]
    found: list[Any] = []
    for call in calls:
        error: Any = call.exception(2 * PATIENCE)
        if error is None:
            found.append(json.loads(getattr(call.result().content[0], "text", "")))
        else:
            found.append((error.error.code, error.error.message))
    return found
