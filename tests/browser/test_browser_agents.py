"""Agents in a browser: start with two keys, watch live, pause and stop."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from lifelines import until
from loop_projects import LoopProject, wait_until_gone

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.sessions.store import stored_sessions

pytestmark = BROWSER
MARKUP = "<img src=x onerror=alert(1)>"
SIDEWAYS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopProject]:
    """A project whose agent writes a message, waits for `go`, writes more, and waits for `end`."""
    steps = [
        "begin",
        ["write", "new.txt", f"one\n{MARKUP}\n"],
        ["comment", "looked at it"],
        ["say", f"first words {MARKUP}"],
        ["wait", str(tmp_path / "go")],
        ["say", "further words"],
        ["wait", str(tmp_path / "end")],
        "done",
    ]
    root = tmp_path / "p"
    root.mkdir()
    (root / "test.py").write_text("first = 1\n", encoding="utf-8")
    found = LoopProject(tmp_path, 2, {"*": [steps]}, repository=True)
    monkeypatch.setenv("PATH", found.environment["PATH"])
    yield found
    for name in ("go", "end"):
        (tmp_path / name).touch()
    wait_until_gone(found.root)


@pytest.fixture
def board(project: LoopProject) -> Iterator[BoardProcess]:
    with board_process(project.root) as running:
        yield running


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    with chromium.page(board.url) as opened:
        yield opened

        assert [] == opened.said()


@pytest.fixture
def plain(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    with chromium.page(f"{board.url}agents", javaScriptEnabled=False) as opened:
        yield opened


def reloaded(page: Page, selector: str) -> None:
    """Reload the page until an element appears."""

    def shown() -> bool:
        page.steps(("reload",))
        return page.count(selector) > 0

    until(shown)


def test_two_keys_start_a_loop_that_the_page_shows_live(
    page: Page, project: LoopProject, tmp_path: Path
) -> None:
    page.press("g")
    page.wait("#dialog[open] >> text=2 tasks are ready")
    page.press("Enter")
    page.wait("#now h1 >> text=1 agent at work")
    page.wait("#now .worker >> text=first words")
    page.script("document.body.dataset.mine = 'yes'")
    (tmp_path / "go").touch()
    page.wait("#now .worker >> text=further words")  # live

    assert page.script("document.body.dataset.mine === 'yes'")
    assert MARKUP in page.text("#now .worker >> nth=0")
    page.click("#now >> text=Pause")
    page.wait("#now h1 >> text=Paused, 1 agent at work")
    (tmp_path / "end").touch()
    page.wait("#now h1 >> text=Paused, no agents at work")
    page.wait("#nights >> text=done")
    assert {1: "done", 2: "pending"} == project.statuses()
    page.click("#now >> text=Resume")
    page.wait("#now >> text=The last loop ended")
    assert page.script("document.body.dataset.mine === 'yes'")
    assert {1: "done", 2: "done"} == project.statuses()
    assert "no task is ready" in page.text("#now")
    assert "$0.50" in page.text("#nights")


def test_session_of_a_task_starts_is_shown_live_and_stops(
    page: Page, board: BoardProcess, project: LoopProject, tmp_path: Path
) -> None:
    page.go(f"{board.url}agents/start?task=1")
    page.click("main .main")
    page.wait("#facts >> text=Stop the agent")
    page.wait("#words >> text=first words")
    page.script("document.body.dataset.mine = 'yes'")
    (tmp_path / "go").touch()
    page.wait("#words >> text=further words")
    page.wait("#files >> text=new.txt")
    assert MARKUP in page.script("document.querySelector('#files').textContent")
    page.click("#facts >> text=Stop the agent")
    page.wait("#said >> text=The agent has ended, and its task is released")
    page.wait("#facts >> text=stopped")

    assert page.script("document.body.dataset.mine === 'yes'")
    assert "ralphgen undo" in page.text("#facts")
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_button_on_a_card_stops_an_agent_of_a_loop(page: Page, project: LoopProject) -> None:
    page.press("g")
    page.wait("#dialog[open] [name=max_time]")
    page.fill("#dialog [name=max_time]", "9m")
    page.press("Tab")
    page.wait("#summary >> text=for at most 9m")
    page.click("#dialog .main")
    page.wait("#now .worker >> text=Task 1")
    page.click("#now .worker button")
    page.wait("#said >> text=The agent has ended")
    page.click("#now >> text=Stop now")
    page.wait("#now >> text=The last loop ended")

    assert {1: "pending", 2: "pending"} == project.statuses()


def test_refused_start_keeps_the_dialog_and_its_values(page: Page) -> None:
    page.press("g")
    page.wait("#dialog[open] [name=max_time]")
    page.fill("#dialog [name=max_time]", "soon")
    page.press("Enter")
    page.wait('#dialog [role=alert] >> text=invalid duration "soon"')

    assert "soon" == page.value("#dialog [name=max_time]")
    page.press("Escape")
    page.wait("#dialog", "hidden")
    assert ["error: Failed to load resource: the server responded with a status of 400"] == [
        one.partition(" (")[0] for one in page.said()
    ]


def test_loop_starts_pauses_and_stops_without_javascript(plain: Page, project: LoopProject) -> None:
    plain.click("#now >> text=Start agents")
    plain.fill("[name=max_time]", "soon")
    plain.click("main .main")
    plain.wait('#said >> text=invalid duration "soon"')
    plain.fill("[name=max_time]", "9m")
    plain.click("main .main")
    plain.wait("#said [data-ok=true]")
    reloaded(plain, "#now .worker >> text=first words")
    plain.click("#now >> text=Pause")
    plain.wait("#said [data-ok=true]")
    reloaded(plain, "#now h1 >> text=Paused")
    plain.click("#now >> text=Stop now")
    plain.wait("#said [data-ok=true]")
    reloaded(plain, "#now >> text=The last loop ended")

    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_pages_of_agents_are_accessible_and_fit_every_width(
    chromium: Chromium, board: BoardProcess, project: LoopProject
) -> None:
    with chromium.page(f"{board.url}agents") as page:

        def looked_at(place: str, selector: str) -> None:
            page.go(f"{board.url}{place}")
            page.wait(selector)
            page.script("for (const one of document.querySelectorAll('details')) one.open = true")
            for width in (390, 900, 1280):
                page.resize(width, 900)
                assert [] == page.violations_in_both_schemes(), (place, width)
                assert not page.script(SIDEWAYS), (place, width)

        looked_at("agents/start", "form")
        looked_at("agents/start?task=1", "form")
        looked_at("agents", "text=No session is on record yet")
        board.post("agents/start", {"agent": "claude", **dict.fromkeys(LIMITS, "")})
        project.wait_for("begin", 1)
        (session,) = [one.session_id for one in stored_sessions(project.root)]
        looked_at("agents", "#now .worker >> text=first words")
        looked_at(f"agents/{session}", "#words >> text=first words")
        board.post(f"agents/{session}/stop")
        looked_at(f"agents/{session}", "#facts >> text=stopped")
        page.press("g")
        page.wait("#dialog[open] form")
        assert [] == page.violations_in_both_schemes()

        assert [] == page.said()


LIMITS = ("parallel", "max_cost", "max_time")
