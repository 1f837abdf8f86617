"""Who reads the board: in light and dark, on narrow screens, by ear, with hostile rows in it."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from board_browsers import PLACES, BoardProcess, board_process
from command_line import initialized, ralphgen
from driving import made_here, query
from making_sessions import opened

from browser.browsing import BROWSER, Chromium, Page

pytestmark = BROWSER
HOSTILE = (
    "</title></textarea></script><script>window.hit = 1</script>",
    "\"'><img src=x onerror=window.hit=2><base href=//evil.example>",
    "' onmouseover='window.hit=3' autofocus onfocus='window.hit=4",
    "</template></select><style>*{display:none}</style>&lt;b&gt;",
    "\u202egnorw\u2066 \u05e9\u05dc\u05d5\u05dd {{ 7 * 7 }}\u0000".replace("\u0000", ""),
    "long" * 500,
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which every name and every text tries to be a program."""
    root = initialized(tmp_path_factory.mktemp("read") / "p", "--kit", "dela", "--kit", "acm")
    for number, text in enumerate(HOSTILE, start=1):
        servers = [{"name": f"s{number}", "command": text, "args": [text], "env": {text: "hidden"}}]
        learnings = [{"text": text, "source": text, "created": text, "hit_count": 2}]
        query(
            root,
            "INSERT INTO disciplines (name, display_name, acronym, icon, color, mcp_servers)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            *(text, text, f"H{number}", text, text, json.dumps(servers)),
        )
        query(
            root,
            "INSERT INTO features (name, display_name, acronym, learnings) VALUES (?, ?, ?, ?)",
            *(text, text, f"H{number}", json.dumps(learnings)),
        )
        query(
            root,
            "INSERT INTO tasks (id, feature, discipline, title, status, priority, depends_on,"
            " blocked_by, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(number, text, text, text, ("pending", text, "blocked")[number % 3], text),
            *(json.dumps([number - 1]), text, text),
        )
        query(
            root,
            "INSERT INTO task_comments (task_id, author, body, created) VALUES (?, ?, ?, ?)",
            *(number, text, f"{text}\n{text}", text),
        )
        add_record(root, number, text)
    opened(made_here(root), "task_execution", task=2)
    unreadable = json.dumps([{"name": HOSTILE[1], "command": HOSTILE[1]}])
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE acronym = 'H1'", unreadable)
    (root / ".ralph/mcp/policy.py").write_text(f"# {HOSTILE[0]}\n", encoding="utf-8")
    return root


def add_record(root: Path, number: int, text: str) -> None:
    """Record texts on a task that try to be programs, and make it held or stale."""
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, recipe, discipline, task_id, feature, agent, model,"
        " started, outcome, cost_usd, worktree, merged)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
        *(text, text, text, number, text, text, text, text, text, text, text),
    )
    query(
        root,
        "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, began)"
        " VALUES (?, ?, 1, ?, ?, ?)",
        *(number, text, text, "2999" if number % 2 else "2026", text),
    )
    for at in range(30):
        query(
            root,
            "INSERT INTO ralphgen_journal (time, session, tool, table_name, row_key, before, after)"
            " VALUES (?, ?, ?, 'tasks', ?, ?, ?)",
            *(text, text, text, number, json.dumps({text: text, "at": at}), text),
        )
    query(
        root,
        "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, exit_code,"
        " started, seconds, tree, protected, watched, tail) VALUES (?, ?, ?, '', 1, ?, 1, '',"
        " ?, ?, ?)",
        *(number, text, text, text, json.dumps([text]), text, f"{text}\n{text}"),
    )


@pytest.fixture(scope="module")
def board(hostile: Path) -> Iterator[BoardProcess]:
    with board_process(hostile) as running:
        yield running


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    with chromium.page(f"{board.url}knowledge") as opened_page:
        opened_page.wait_live()
        yield opened_page


def harmless(page: Page) -> None:
    """Nothing was run, loaded or refused, and no element is there that is not ours."""
    assert page.script("window.hit === undefined")
    ours = "[src='/assets/board.js'], [src='/assets/keys.js']"
    foreign = f"img, base, style, iframe, object, embed, script:not({ours})"
    assert 0 == page.count(foreign)
    handlers = "[...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames())"
    assert page.script(f"{handlers}.filter(name => name.startsWith('on')).length === 0")
    assert [] == page.said()


def test_a_name_that_no_session_can_read_is_there_to_be_mended(page: Page) -> None:
    page.at("#disciplines-discipline", "selectOption", HOSTILE[0])
    page.wait('[name="servers.0.name"]')

    assert HOSTILE[1] == page.value('[name="servers.0.name"]')
    harmless(page)


@pytest.mark.parametrize("name", HOSTILE[1:], ids=range(1, len(HOSTILE)))
def test_no_name_becomes_anything_but_text(page: Page, name: str) -> None:
    page.at("#disciplines-discipline", "selectOption", name)
    page.wait('#disciplines form[data-discipline-form] [name="discipline"] >> nth=0', "attached")
    page.wait('[name="servers.0.name"]')

    assert name == page.script(
        "document.querySelector('#disciplines [name=discipline][type=hidden]').value"
    )
    assert name == page.value('[name="servers.0.command"]')
    assert name == page.value('[name="servers.0.env.0.name"]')
    page.fill('[name="servers.0.name"]', f"{name[:40]}<i>")
    page.click("#disciplines button.main")
    page.wait("#notices .notice")
    harmless(page)
    assert "hidden" not in page.script("document.body.innerText.split(/\\W/)")
    page.click("[data-discard]")


@pytest.mark.parametrize("place", PLACES)
def test_no_place_makes_more_of_a_name(chromium: Chromium, board: BoardProcess, place: str) -> None:
    with chromium.page(f"{board.url}{place}") as page:
        for name in HOSTILE:
            page.go(f"{board.url}{place}?{urlencode({'discipline': name})}")
            page.wait_live()
            if place == "access":
                page.at("#matrix td[data-state=bound] >> nth=0", "hover")

            harmless(page)


@pytest.mark.parametrize("task", range(1, len(HOSTILE) + 1))
def test_nothing_on_record_becomes_anything_but_text(
    chromium: Chromium, board: BoardProcess, task: int
) -> None:
    with chromium.page(f"{board.url}sessions?task={task}") as page:
        page.wait_live()
        page.wait(f"#record [data-key=task-{task}]")
        page.click("#record details summary")

        assert 25 == page.count("#record [data-key=changes] li")
        assert 1 == page.count("#record [data-key=evidence] li")
        harmless(page)


@pytest.mark.parametrize("place", PLACES)
def test_no_text_widens_the_page(chromium: Chromium, board: BoardProcess, place: str) -> None:
    with chromium.page(f"{board.url}{place}?task=6") as page:
        page.wait_live()
        for width in (320, 390, 820, 1440):
            page.resize(width, 800)

            assert width == page.script("document.documentElement.scrollWidth")


@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing(chromium: Chromium, board: BoardProcess, place: str) -> None:
    with chromium.page(f"{board.url}{place}?task=1") as page:
        page.wait_live()
        if place == "sessions":
            page.wait("#record [data-key=task-1]")
        if place == "knowledge":
            page.at("#disciplines-discipline", "selectOption", HOSTILE[2])
            page.wait('[name="servers.0.name"]')
            page.fill('[name="servers.0.name"]', "ralph")
            page.wait('[name="servers.0.name"][aria-invalid]')
            page.click('[data-add="new-server"]')
        if place == "health":
            page.click("#diagnosis button")
            page.wait("#diagnosis .finding")
            page.wait("#notices .notice")
        page.script("for (const one of document.querySelectorAll('details')) one.open = true")
        if place == "access":
            page.at("#matrix td[data-state=narrowed] >> nth=0", "hover")

        assert [] == page.violations_in_both_schemes()


def test_axe_finds_nothing_in_a_report(chromium: Chromium, hostile: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert 0 == ralphgen("board", "-C", hostile, "--export", target, "--quiet").returncode
    with chromium.page(target.as_uri()) as page:
        page.script("for (const one of document.querySelectorAll('details')) one.open = true")

        assert [] == page.violations_in_both_schemes()
        assert [] == page.said()
        assert page.script("window.hit === undefined")
        assert 0 == page.count("script, img, base, form, button, style ~ style")
        assert 1280 == page.script("document.documentElement.scrollWidth")


@pytest.mark.benchmark
def test_the_first_paint_of_20_000_tasks(
    chromium: Chromium, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = initialized(tmp_path / "p")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    query(
        root,
        f"{numbers.format(200)} INSERT INTO features (name, display_name, acronym)"
        " SELECT 'f' || i, 'F ' || i, 'F' || i FROM n",
    )
    query(
        root,
        f"{numbers.format(20_000)} INSERT INTO tasks (id, feature, discipline, title, depends_on)"
        " SELECT i, 'f' || (i % 200 + 1), (SELECT name FROM disciplines LIMIT 1), 'Task ' || i,"
        " '[' || max(1, i - 7) || ']' FROM n",
    )
    query(
        root,
        f"{numbers.format(200)} INSERT INTO disciplines (name, display_name, acronym, icon, color)"
        " SELECT 'd' || i, 'D' || i, 'D' || i, 'Star', '#123456' FROM n",
    )
    query(
        root,
        f"{numbers.format(50)} INSERT INTO ralphgen_sessions (id, recipe, task_id, agent, started)"
        " SELECT 's-' || i, 'task_execution', i, 'a', '2026-02-10T10:00:00Z' FROM n",
    )
    paint = """new Promise(resolve => new PerformanceObserver(list => {
        for (const { name, startTime } of list.getEntries())
            if (name === 'first-contentful-paint') resolve(startTime);
    }).observe({ type: 'paint', buffered: true }))"""
    with board_process(root) as board:
        paints = []
        for _ in range(5):
            started = time.perf_counter()
            with chromium.page(board.url) as page:
                page.wait("#overview .figures")
                paints.append(round(float(page.script(paint))))
                whole = time.perf_counter() - started
        status = Path(f"/proc/{board.process.pid}/status").read_text(encoding="utf-8")
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    size = int(peak) // 1024
    with capsys.disabled():
        sys.stdout.write(f"\nfirst paints {paints} ms, the last whole {whole:.2f} s, {size} MB\n")
