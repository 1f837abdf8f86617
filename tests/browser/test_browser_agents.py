"""Agents at work in a browser: started, watched live, stopped, undone; and the loop."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from driving import query
from lifelines import until
from loop_projects import LoopProject, wait_until_gone

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.loop.record import stored_loops
from ralphgen.sessions.store import stored_sessions

pytestmark = BROWSER
MARKUP = "<img src=x onerror=alert(1)>"
FORM = "#start form"
OPENED = "for (const one of document.querySelectorAll('#tree details')) one.open = true"
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
    with chromium.page(f"{board.url}sessions") as opened:
        opened.wait_live()
        yield opened

        assert [] == opened.said()


@pytest.fixture
def plain(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    with chromium.page(f"{board.url}sessions", javaScriptEnabled=False) as opened:
        opened.wait_plain("#sessions h2")
        yield opened


def click_away(page: Page, selector: str) -> None:
    """Click what leads to another page, and wait for that: none is reloaded while it goes."""
    page.script("document.body.dataset.left = 'yes'")
    page.click(selector)
    page.wait("body:not([data-left])")


def reloaded(page: Page, selector: str) -> None:
    """Load the page again until something is there."""

    def shown() -> bool:
        page.steps(("reload",))
        return page.count(selector) > 0

    until(shown)


def test_a_session_from_its_start_to_its_undo_by_mouse(
    page: Page, project: LoopProject, tmp_path: Path
) -> None:
    page.click("text=Start an agent")
    page.fill(f"{FORM} [name=task]", "1")
    page.click(f"{FORM} button")
    page.wait("#session >> text=An agent works in it.")
    page.wait_live()
    page.script("document.body.dataset.mine = 'yes'")
    page.wait("#stream >> text=first words")
    (tmp_path / "go").touch()
    page.wait("#stream >> text=further words")  # live
    page.wait("#tree >> text=new.txt")
    page.click("#tree summary >> text=new.txt")

    assert page.script("document.body.dataset.mine === 'yes'")
    assert MARKUP in page.text("#stream-words + .tall")
    assert MARKUP in page.text("#tree pre.diff >> visible=true")
    page.click("#session summary >> text=Stop …")
    page.click("#session button.harm")
    page.wait("#notices >> text=the agent has ended, and its task is released")
    page.wait("#session >> text=It is over: stopped.")
    assert {1: "pending", 2: "pending"} == project.statuses()
    page.click("text=Undo …")
    page.wait("#undo >> text=task_comments 1")
    page.click("#undo button.harm")
    page.wait("#notices >> text=restored")
    assert [] == query(project.root, "SELECT id FROM task_comments WHERE body = 'looked at it'")


def test_a_session_is_started_and_stopped_by_keyboard(page: Page, project: LoopProject) -> None:
    page.focus("a[href='/sessions/new']")
    page.press("Enter")
    page.wait(FORM)
    page.focus(f"{FORM} [name=task]")
    page.type("1")
    page.press("Enter")
    page.wait("#stream >> text=first words")
    page.focus("#session details[data-key=stop] summary")
    page.press("Enter", "Tab", "Enter")
    page.wait("#notices >> text=the agent has ended, and its task is released")

    assert {1: "pending", 2: "pending"} == project.statuses()


def test_a_session_from_its_start_to_its_undo_without_scripts(
    plain: Page, project: LoopProject
) -> None:
    plain.click("text=Start an agent")
    plain.wait_plain(FORM)
    plain.fill(f"{FORM} [name=task]", "99")
    plain.click(f"{FORM} button")
    plain.wait("#notices >> text=there is no task 99")
    plain.wait_plain(FORM)
    plain.fill(f"{FORM} [name=task]", "1")
    click_away(plain, f"{FORM} button")
    reloaded(plain, "#stream >> text=first words")
    reloaded(plain, "#session summary >> text=Stop …")
    plain.click("#session summary >> text=Stop …")
    click_away(plain, "#session button.harm")
    reloaded(plain, "#session >> text=It is over: stopped.")
    plain.click("text=Undo …")
    plain.wait_plain("#undo button.harm")
    plain.click("#undo button.harm")
    plain.wait("#notices >> text=restored")

    assert [] == query(project.root, "SELECT id FROM task_comments WHERE body = 'looked at it'")


def test_a_loop_is_started_paused_resumed_and_stopped_by_mouse(
    page: Page, project: LoopProject, tmp_path: Path
) -> None:
    page.click("text=The loop")
    page.fill("#loop [name=max_tasks]", "5")
    page.click("#loop button.main")
    page.wait("#loop >> text=Running")
    page.wait_live()
    page.script("document.body.dataset.mine = 'yes'")
    page.wait("#loop >> text=#1 Task 1")
    assert page.script("document.body.dataset.mine === 'yes'")
    page.click("#loop button >> text=Pause")
    page.wait("#loop .verdict >> text=Paused")
    for name in ("go", "end"):
        (tmp_path / name).touch()
    page.wait("#loop >> text=waits")
    assert {1: "done", 2: "pending"} == project.statuses()
    page.click("#loop button >> text=Resume")
    page.wait("#loop .verdict >> text=Ended: no task is ready")
    assert {1: "done", 2: "done"} == project.statuses()
    assert "5" == page.value("#loop [name=max_tasks]")


def test_a_loop_is_started_and_stopped_by_keyboard(page: Page, project: LoopProject) -> None:
    page.focus("a[href='/loop']")
    page.press("Enter")
    page.wait("#loop [name=max_tasks]")
    page.focus("#loop [name=max_tasks]")
    page.type("5")
    page.press("Enter")
    page.wait("#loop >> text=#1 Task 1")
    page.focus("#loop details[data-key=stop-now] summary")
    page.press("Enter", "Tab", "Enter")
    page.wait("#loop .verdict >> text=Ended")

    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_a_loop_is_started_paused_and_stopped_without_scripts(
    plain: Page, project: LoopProject
) -> None:
    plain.click("text=The loop")
    plain.wait_plain("#loop button.main")
    plain.fill("#loop [name=max_time]", "soon")
    plain.click("#loop button.main")
    plain.wait('#notices >> text=invalid duration "soon"')
    plain.wait_plain("#loop button.main")
    plain.fill("#loop [name=max_time]", "9m")
    click_away(plain, "#loop button.main")
    reloaded(plain, "#loop >> text=#1 Task 1")
    click_away(plain, "#loop button >> text=Pause")
    reloaded(plain, "#loop .verdict >> text=Paused")
    plain.click("#loop summary >> text=Stop now …")
    click_away(plain, "#loop details[open] button.harm")
    reloaded(plain, "#loop .verdict >> text=Ended")

    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    chromium: Chromium, board: BoardProcess, project: LoopProject
) -> None:
    def looked_at(page: Page, place: str, selector: str) -> None:
        page.go(f"{board.url}{place}")
        page.wait_live()
        page.wait(selector)
        page.script(OPENED)
        for width in (390, 1440):
            page.resize(width, 900)
            assert [] == page.violations_in_both_schemes(), (place, width)
            assert not page.script(SIDEWAYS), (place, width)

    with chromium.page(f"{board.url}sessions/new") as page:
        looked_at(page, "sessions/new?task=1", FORM)
        looked_at(page, "loop", "#loop form")
        board.post("loop/start", dict.fromkeys(LOOP, "") | {"agent": "claude"})
        project.wait_for("begin", 1)
        (session,) = [one.session_id for one in stored_sessions(project.root)]
        looked_at(page, "loop", "#loop >> text=#1 Task 1")
        looked_at(page, f"sessions/{session}", "#stream >> text=first words")
        loop_id = stored_loops(project.root)[0].loop_id
        board.post("loop/ask", {"ask": "stop-now", "loop": loop_id})
        looked_at(page, f"sessions/{session}", "#session >> text=It is over")
        looked_at(page, f"sessions/{session}/undo", "#undo button")
        looked_at(page, "loop", "#loop .verdict >> text=Ended")

        assert [] == page.said()


LOOP = ("agent", "parallel", "max_tasks", "max_cost", "max_time", "review_every")
