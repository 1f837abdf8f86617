"""How the board looks on a phone, a tablet and a desktop: nothing covers, breaks or runs over."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from board_browsers import PLACES, BoardProcess, board_process

from browser.browsing import BROWSER, Chromium, Page
from browser.work_in_progress import LIVE, OVER, at_work, project_at_work

pytestmark = BROWSER
WIDTHS = (390, 820, 1440)
MAY_SCROLL = ".scroll, .graph, .diff, .output, .wide"
"""What is wide by its nature: the grid, the drawing, what programs have written."""
AT_WORK = (f"sessions/{LIVE}", "loop")
WORK = (
    *("tasks/2", "tasks/3/edit", "tasks/5", "tasks/new", "tasks/999"),
    *(f"sessions/{OVER}", f"sessions/{OVER}/undo", *AT_WORK),
    *("sessions/new?task=1", "loop?max_tasks=3"),
)
"""Pages of a task, a session and the loop: over, at work, as forms, and one that is not there."""
OPENED = "for (const one of document.querySelectorAll('main details')) one.open = true"
BROKEN = """() => {
    const broken = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { data, parentElement } = texts.currentNode;
        if (!parentElement.checkVisibility() || parentElement.closest(".name, .sr")) continue;
        for (const { 0: word, index } of data.matchAll(/[\\p{L}\\p{N}]{2,24}/gu)) {
            const range = document.createRange();
            range.setStart(texts.currentNode, index);
            range.setEnd(texts.currentNode, index + word.length);
            const tops = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
            if (tops.size > 1) broken.push(word);
        }
    }
    return broken;
}"""
SIDEWAYS = f"""() => [...document.querySelectorAll("body *")].filter((one) =>
    one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
    && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)
    && !one.matches("{MAY_SCROLL}, textarea, input")).map((one) => one.outerHTML.slice(0, 80))"""
OVER = """() => [...document.querySelectorAll("main *, nav a")].filter((one) => {
    const box = one.getBoundingClientRect();
    const clipped = one.closest(".sr, .scroll, .graph, svg, thead, .tall, .wide, .diff, .output");
    return !clipped && box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((one) => one.outerHTML.slice(0, 80))"""
COVERED = """async () => {
    const covered = [];
    const parts = "main a, main button, main input, main select, main textarea, main h2, main h3,"
        + "main td, main th, nav a";
    for (const one of document.querySelectorAll(parts)) {
        if (!one.checkVisibility() || one.closest(".sr, template, thead")) continue;
        one.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
        const [box] = one.getClientRects(); // the first line of what is on several
        const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        const fits = box.width > 1 && box.height > 1 && at;
        if (fits && !one.contains(at) && !at.contains(one))
            covered.push([one.outerHTML.slice(0, 80), at.outerHTML.slice(0, 80)]);
    }
    return covered;
}"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in the middle of its work, with everything that a page can show."""
    root = project_at_work(tmp_path_factory.mktemp("looks") / "p")
    policy = root / ".ralph/mcp/policy.py"
    policy.write_text(f"# mine\n{policy.read_text(encoding='utf-8')}", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with a server that starts: tasks can be changed."""
    return project_at_work(tmp_path_factory.mktemp("work") / "p")


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[BoardProcess]:
    with board_process(root) as running:
        yield running


@pytest.fixture(scope="module")
def work_board(worked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardProcess]:
    """A board on it with an agent on PATH, which can be started."""
    program = tmp_path_factory.mktemp("programs") / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        with board_process(worked) as running:
            yield running


@pytest.mark.parametrize("place", [*PLACES, "loop", "sessions/new"])
def test_nothing_covers_breaks_or_scrolls_sideways(
    chromium: Chromium, board: BoardProcess, place: str
) -> None:
    with chromium.page(f"{board.url}{place}?task=1&discipline=testing") as page:
        page.wait_live()
        for width in WIDTHS:
            page.resize(width, 844)

            assert well_laid_out(page), width


@pytest.mark.parametrize("place", WORK)
def test_work_is_well_laid_out_and_axe_finds_nothing_in_light_and_dark(
    chromium: Chromium, work_board: BoardProcess, worked: Path, place: str
) -> None:
    working = at_work(worked) if place in AT_WORK else nullcontext()
    with working, chromium.page(f"{work_board.url}{place}") as page:
        page.wait_live()
        assert [] == page.violations_in_both_schemes()
        page.script(OPENED)
        for width in WIDTHS:
            page.resize(width, 844)

            assert [] == page.violations_in_both_schemes(), width
            assert well_laid_out(page), width


def well_laid_out(page: Page) -> bool:
    """Return whether a page has none of the four faults."""
    assert [] == page.script(f"({BROKEN})()"), "words are broken"
    assert [] == page.script(f"({SIDEWAYS})()"), "parts scroll sideways"
    assert [] == page.script(f"({OVER})()"), "parts are outside of the page"
    assert [] == page.script(f"({COVERED})()"), "parts are covered"
    return True


def test_the_sentence_of_a_cell_is_seen_next_to_the_cell(
    chromium: Chromium, board: BoardProcess
) -> None:
    size = {"width": 390, "height": 844}
    boxes = (
        "['#explain', '#matrix .scroll'].map(one => {"
        " const { top, bottom } = document.querySelector(one).getBoundingClientRect();"
        " return [top, bottom, innerHeight]; })"
    )
    with chromium.page(f"{board.url}access", viewport=size, hasTouch=True) as page:
        page.wait_live()
        page.at("#matrix td[data-state=narrowed] >> nth=0", "tap")
        page.script("document.querySelector('#explain').scrollIntoView({ behavior: 'instant' })")
        explained, grid = page.script(boxes)

    assert explained[1] <= grid[0]
    assert grid[1] <= grid[2] + 80


@pytest.mark.parametrize("width", [390, 820])
def test_sessions_are_cards_on_a_narrow_screen(
    chromium: Chromium, board: BoardProcess, width: int
) -> None:
    size = {"width": width, "height": 844}
    with chromium.page(f"{board.url}sessions", viewport=size) as page:
        page.wait_live()
        cells = "[...document.querySelectorAll('#record tbody tr:first-child > :not(:empty)')]"
        lefts = page.script(f"{cells}.map(one => Math.round(one.getBoundingClientRect().left))")
        label = "getComputedStyle(document.querySelector('#record td'), '::before').content"

        assert 1 == len(set(lefts))
        assert '"Task"' == page.script(label)
        assert 0 == page.script("document.querySelector('.wide').scrollLeft")


def test_a_session_is_ended_without_scrolling_sideways_on_a_desktop(
    chromium: Chromium, board: BoardProcess
) -> None:
    size = {"width": 1440, "height": 844}
    with chromium.page(f"{board.url}sessions", viewport=size) as page:
        page.wait_live()
        wide = "document.querySelector('#sessions .wide')"

        assert 0 >= page.script(f"{wide}.scrollWidth - {wide}.clientWidth")
