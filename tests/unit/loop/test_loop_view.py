"""The live view of a loop: 80 columns, workers and tasks, the last call, cost, remaining work."""

import io

from rich.console import Console

from ralphgen.cli.loop_view import LiveView, LoopScreen
from ralphgen.loop.run import Event, event


def visible_lines(screen: LoopScreen) -> list[str]:
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(screen)
    return [line.rstrip() for line in captured.get().splitlines()]


def screen_of(*events: Event) -> LoopScreen:
    screen = LoopScreen()
    for told in events:
        screen.take(told)
    return screen


BEGUN = event("begin", agent="claude", workers=2, ready=3)
SESSION = event("session", worker=2, session="s", task=7, title="A\x1b[31m title [bold]" + "x" * 99)
CALL = event("call", worker=2, tool="mcp__ralph__get_task")
END = event("end", worker=2, session="s", task=7, outcome="done", cost_usd=0.25, seconds=3.0)


def test_the_view_shows_sessions_tasks_and_last_calls() -> None:
    screen = screen_of(BEGUN, SESSION, CALL)
    screen.counts = {"ready": 2, "blocked": 1}
    _, idle, working, facts, _ = visible_lines(screen)

    assert idle.split() == ["1", "-"]
    assert working.startswith("2   7 A\\x1b[31m title [bold]")
    assert "mcp__ralph__get_task" in working
    assert facts == "2 ready, 1 blocked, 0 s"


def test_no_line_is_longer_than_the_terminal() -> None:
    assert all(len(line) <= 80 for line in visible_lines(screen_of(BEGUN, SESSION, CALL)))


def test_what_ended_is_counted_and_its_worker_is_free() -> None:
    _, _, free, facts, _ = visible_lines(screen_of(BEGUN, SESSION, CALL, END))

    assert free.split() == ["2", "-"]
    assert facts == "1 done, $0.25, 0 s"


def test_cost_is_unknown_if_no_agent_reports_it() -> None:
    end = event("end", worker=2, session="s", task=7, outcome="done", cost_usd=None, seconds=3.0)

    assert visible_lines(screen_of(BEGUN, SESSION, end))[3] == "1 done, cost unknown, 0 s"


def test_a_pause_and_a_stop_remain_in_sight() -> None:
    pause = event("pause", seconds=20.0)

    assert "retrying in 20 s" in visible_lines(screen_of(BEGUN, pause))[-1]


def test_counts_are_refreshed_and_lines_are_above() -> None:
    asked = []

    def counts() -> dict[str, int]:
        asked.append(1)
        return {"ready": 5}

    with LiveView(counts) as view:
        view.show(BEGUN)
        view.show(None)

    assert [1] == asked
